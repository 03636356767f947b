"""A deploy from the client's side: build, upload, and have the service do the rest.

Owns the order of what happens here. Prints nothing: each step is told to a `Teller`.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from doors.tables.migrations import FOLDER
from doors.tables.migrations import find as find_migrations
from engine.artifact import Artifact, ComponentArtifact
from engine.bucket.protocols import Digest
from engine.build.builder import Builder
from engine.control.access import Principal
from engine.deploy.package import Packed, pack
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.model import Project, Resource
from engine.service.policy import component_imports
from engine.wasm.compile.check import check_component, error_context
from svc_tui.client import ApiError, Client
from svc_tui.composition import lanes

UPLOADS_AT_ONCE = 4
CHUNK = 256 << 10
RETRIES = 5


class DeployProgress(Protocol):
    """Hears how a deploy goes on."""

    def building(self, resource: str, line: str) -> None:
        """Hear a line of a build's progress."""

    def built(self, resource: Resource, artifact: Artifact, seconds: float, *, unchanged: bool) -> None:
        """Hear that a Resource is built, or was before."""

    def uploading(self, done: int, total: int) -> None:
        """Hear how many bytes of those that the service lacks are there."""

    def step(self, step: str, text: str) -> None:
        """Hear what the service does."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A Project that is built: its manifest, its parts as packages, its migrations."""

    project: str
    manifest: str
    packed: Mapping[str, Packed]
    packages: Mapping[str, tuple[Digest, bytes]]
    imports: Mapping[str, frozenset[str] | None]
    tables: Mapping[str, str]

    def contents(self) -> dict[Digest, bytes | Path]:
        """Return everything that the service must have, by digest."""
        found: dict[Digest, bytes | Path] = {}
        for packed in self.packed.values():
            found |= packed.contents
        return found | dict(self.packages.values())


def require_deployer(client: Client, project: str) -> None:
    """Raise `Forbidden` for who may not deploy a Project, as the service would after the build."""
    who = client.call("GET", "/v1/whoami")
    name = f"{who['user']}/{who['token']}" if who["token"] else who["user"]
    Principal(name, who["roles"]).require(project, "deployer")


async def build(project: Project, cache: Path, teller: DeployProgress) -> Bundle:
    """Build every Resource, as many at once as there are processors. Raises the first `SvcError`."""
    parts = lanes()
    builder = Builder(parts, cache, "deploy", os.environ)
    free = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(resource: Resource) -> tuple[str, Packed, frozenset[str] | None]:
        async with free:
            artifact = await _build(builder, resource, project.root, teller)
            packed = await asyncio.to_thread(pack, artifact)
            return resource.name, packed, await asyncio.to_thread(component_imports, artifact)

    jobs = [asyncio.ensure_future(one(resource)) for resource in project.resources.values()]
    try:
        made = await asyncio.gather(*jobs)
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.gather(*(lane.aclose() for lane in parts.values()))
    packed = {name: each for name, each, _ in made}
    documents = {name: each.package.encode() for name, each in packed.items()}
    return Bundle(
        project.name,
        (project.root / MANIFEST).read_text(encoding="utf-8-sig"),
        packed,
        {name: (_digest(document), document) for name, document in documents.items()},
        {name: imported for name, _, imported in made},
        {Path(each.name).name: each.sql for each in find_migrations(project.root)},
    )


async def _build(builder: Builder, resource: Resource, root: Path, teller: DeployProgress) -> Artifact:
    clock = asyncio.get_running_loop().time
    began = clock()
    artifact = await builder.remembered(resource, root)
    unchanged = artifact is not None
    if artifact is None:

        def report(line: str) -> None:
            teller.building(resource.name, line.removeprefix(f"{resource.name}: "))

        artifact = await builder.build(resource, root, report, remember=True)
    if isinstance(artifact, ComponentArtifact):
        with error_context(resource.name):
            check_component(artifact.component)
    teller.built(resource, artifact, clock() - began, unchanged=unchanged)
    return artifact


def plan(client: Client, bundle: Bundle) -> dict[str, Any]:
    """Return what the service says that a deploy would change, and what it lacks.

    `migrations` has the names of those that are new. Raises `Refused` for one that never can be applied.
    """
    parts = {}
    for name, (digest, _) in bundle.packages.items():
        package, imported = bundle.packed[name].package, bundle.imports[name]
        parts[name] = {
            "package": digest,
            "artifact": package.artifact,
            "size": sum(part.size for part in package.files.values()),
            "imports": sorted(imported) if imported is not None else None,
        }
    body = {"manifest": bundle.manifest, "parts": parts, "blobs": sorted(bundle.contents())}
    answer: dict[str, Any] = client.call("POST", f"/v1/projects/{bundle.project}/plan", body)
    return answer | {"migrations": _new_migrations(client, bundle)}


def _new_migrations(client: Client, bundle: Bundle) -> list[str]:
    if not bundle.tables:
        return []
    files = [{"name": f"{FOLDER}/{name}", "sql": sql} for name, sql in bundle.tables.items()]
    wish = {"files": files, "plan": True}
    new: list[str] = client.call("POST", f"/v1/projects/{bundle.project}/migrations", wish)["applied"]
    return new


def upload_size(bundle: Bundle, digests: list[str]) -> int:
    """Return how many bytes these contents have."""
    contents = bundle.contents()
    return sum(_size(contents[Digest(digest)]) for digest in digests)


def upload(client: Client, bundle: Bundle, missing: list[str], teller: DeployProgress) -> int:
    """Send what the service lacks, documents of packages last; return its bytes. A broken upload goes on."""
    contents = bundle.contents()
    documents = {digest for digest, _ in bundle.packages.values()}
    sizes = {digest: _size(contents[Digest(digest)]) for digest in missing}
    total, done = sum(sizes.values()), 0
    for group in (
        [digest for digest in missing if digest not in documents],
        [digest for digest in missing if digest in documents],
    ):
        with ThreadPoolExecutor(UPLOADS_AT_ONCE, thread_name_prefix="upload") as threads:
            for digest in threads.map(lambda each: _send(client, bundle.project, each, contents), group):
                done += sizes[digest]
                teller.uploading(done, total)
    return total


def _send(client: Client, project: str, digest: str, contents: Mapping[Digest, bytes | Path]) -> str:
    content = contents[Digest(digest)]
    size, offset = _size(content), 0
    path = f"/v1/projects/{project}/blobs/{digest}"
    for attempt in range(RETRIES):
        try:
            client.call(
                "PUT", path, content=_chunks(content, offset), params={"size": size, "offset": offset}
            )
            return digest
        except ApiError as error:
            if error.code not in ("conflict", "upload-busy") or attempt == RETRIES - 1:
                raise
            offset = client.call("GET", path)["received"]
            if offset >= size:
                return digest
    raise AssertionError


def deploy(
    client: Client,
    bundle: Bundle,
    revision: int | None,
    teller: DeployProgress,
    *,
    commit: str,
    message: str,
    allow: bool,
) -> dict[str, Any]:
    """Have the service take it live; return what is live. Raises `Refused` when it does not."""
    body = {
        "manifest": bundle.manifest,
        "packages": {name: digest for name, (digest, _) in bundle.packages.items()},
        "revision": revision,
        "commit": commit,
        "message": message,
        "allow_new_capability": allow,
        "tables": dict(bundle.tables),
    }
    for line in client.lines("POST", f"/v1/projects/{bundle.project}/deployments", body=body):
        if "error" in line:
            raise ApiError.from_problem(line["error"])
        if "done" in line:
            done: dict[str, Any] = line["done"]
            return done
        teller.step(line["step"], line["text"])
    raise SvcError(
        "the service broke the deploy off",
        "See with `svc deployments` what is live, and deploy again.",
        code="unreachable",
    )


def _digest(document: bytes) -> Digest:
    return Digest(hashlib.sha256(document).hexdigest())


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _chunks(content: bytes | Path, offset: int) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content[offset:]
        return
    with content.open("rb") as file:
        file.seek(offset)
        while data := file.read(CHUNK):
            yield data
