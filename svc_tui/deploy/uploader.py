"""The client's part of a deploy: build, plan, upload, deploy. Each step reports its progress."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from doors.tables.migrations import MIGRATIONS_FOLDER
from doors.tables.migrations import find as find_migrations
from doors.tables.migrations.drift import unmigrated
from engine.artifact import ComponentArtifact
from engine.bucket.protocols import Digest
from engine.build.builder import Builder
from engine.control.access import Principal
from engine.deploy.deployment import DrawnMount, drift
from engine.deploy.package_store import Packed, pack_compressed
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest import MANIFEST
from engine.manifest.model import Project, Resource
from engine.service.policy import component_imports
from svc_tui.client import ApiError, Client
from svc_tui.deploy.build import build_each, build_resource
from svc_tui.deploy.format import DeployProgress, OnProgress, certificate_state, domain_state
from svc_tui.terminal.units import duration, size

MAX_CONCURRENT_UPLOADS = 4
CHUNK_BYTES = 256 << 10
MAX_ATTEMPTS = 8
BUSY_SECONDS = 0.1
"""Time until another attempt while another client uploads the same content; doubled each time."""
GIT_TIMEOUT_SECONDS = 10
CERTIFICATE_SECONDS = 60
"""How long a deploy waits for new domains to reach the service, and for certificates."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A built project: manifest, packages and migrations, and what the deploy would leave out."""

    project: str
    manifest: str
    _: KW_ONLY
    packed: Mapping[str, Packed]
    packages: Mapping[str, tuple[Digest, bytes]]
    imports: Mapping[str, frozenset[str] | None]
    tables: Mapping[str, str]
    warnings: tuple[SvcError, ...]

    def contents(self) -> dict[Digest, bytes | Path]:
        """Return the blobs that the service needs, by digest."""
        blobs: dict[Digest, bytes | Path] = {}
        for packed in self.packed.values():
            blobs |= packed.contents
        return blobs | dict(self.packages.values())


def require_deployer(client: Client, project: str) -> None:
    """Check the user's role before the build. Raises `Forbidden` if it does not permit a deploy."""
    account = client.call("GET", "/v1/whoami")
    name = f"{account['user']}/{account['token']}" if account["token"] else account["user"]
    Principal(name, account["roles"]).require(project, "deployer")


def unset_secrets(client: Client, project: Project) -> SvcError | None:
    """Return the error of a deploy of the project whose secrets have no values on the service, or None."""
    known = client.call("GET", f"/v1/projects/{project.name}/secrets")["secrets"]
    if not (names := sorted(project.secrets.difference(known))):
        return None
    return SvcError(
        f"{project.name} needs secrets without a value on the service: {', '.join(names)}",
        f"Set them: {' && '.join(f'svc secret set {name}' for name in names)}",
        code="policy",
    )


def drifted_mounts(client: Client, project: Project) -> list[DrawnMount]:
    """Return the mounts that were drawn in the Console and that svc.toml does not have."""
    try:
        live = client.call("GET", f"/v1/projects/{project.name}/manifest")
    except ApiError as error:
        if error.code != "not-found":
            raise
        return []
    return drift((DrawnMount(**mount) for mount in live["drawn"]), project)


async def build(project: Project, cache: Path, progress: OnProgress) -> Bundle:
    """Build every resource. Raises the first `SvcError`."""

    async def build_one(builder: Builder, resource: Resource) -> tuple[str, Packed, frozenset[str] | None]:
        started, name = time.monotonic(), resource.name

        def report(line: str) -> None:
            progress(DeployProgress("build", f"{name}: {line}", transient=True))

        # A command may read what the key of the cache lacks, such as ignored files, and those beside workdir.
        cached = resource.build is None
        artifact, unchanged = await build_resource(builder, resource, project.root, report, cached=cached)
        if isinstance(artifact, ComponentArtifact):
            # Imported on demand: it imports all host functions.
            from engine.wasm.compile.check import check_component
            from engine.wasm.compile.component_file import error_context

            with error_context(resource.name):
                check_component(artifact.component)
        result = "unchanged" if unchanged else f"built in {duration(int((time.monotonic() - started) * 1e9))}"
        digest = f"sha256:{getattr(artifact, 'digest', '')[:12]}…"
        progress(DeployProgress("build", f"{name:<{width}}  {resource.lane:<6}  {digest}  {result}"))
        packed = await asyncio.to_thread(pack_compressed, artifact)
        return resource.name, packed, await asyncio.to_thread(component_imports, artifact)

    width = max(map(len, project.resources), default=0)
    # The artifacts are those of this manifest, whatever is saved during the build.
    manifest = (project.root / MANIFEST).read_text(encoding="utf-8-sig")
    async with build_each(project, cache, build_one) as builds:
        results = await asyncio.gather(*builds)
    packed = {name: package for name, package, _ in results}
    documents = {name: package.package.encode() for name, package in packed.items()}
    return Bundle(
        project.name,
        manifest,
        packed=packed,
        packages={name: (Digest(sha256(each).hexdigest()), each) for name, each in documents.items()},
        imports={name: imported for name, _, imported in results},
        tables={Path(file.name).name: file.sql for file in find_migrations(project.root)},
        warnings=await asyncio.to_thread(_drift, project.root),
    )


def _drift(root: Path) -> tuple[SvcError, ...]:
    """Return a warning that names what the tables have in development only."""
    try:
        names = unmigrated(root, root / DATA_DIR)
    except SvcError as error:
        return (error,)
    text = f"the tables were changed here without a migration: {', '.join(names)}"
    return (SvcError(text, "Run `svc tables migration NAME` to write one."),) if names else ()


def plan(client: Client, bundle: Bundle) -> dict[str, Any]:
    """Return the plan of the service: changes, missing blobs, new migrations and warnings.

    Raises `ApiError`, for a migration that can never be applied among others.
    """
    resources = {}
    for name, (digest, _) in bundle.packages.items():
        package, imported = bundle.packed[name].package, bundle.imports[name]
        resources[name] = {
            "package": digest,
            "artifact": package.artifact,
            "size": sum(part.size for part in package.files.values()),
            "imports": sorted(imported) if imported is not None else None,
        }
    body = {"manifest": bundle.manifest, "resources": resources, "blobs": sorted(bundle.contents())}
    path = f"/v1/projects/{bundle.project}"
    plan = client.call("POST", f"{path}/plan", body)
    warnings = [{"message": each.message, "hint": each.hint} for each in bundle.warnings]
    migrations = []
    if bundle.tables:
        files = [{"name": f"{MIGRATIONS_FOLDER}/{name}", "sql": sql} for name, sql in bundle.tables.items()]
        migrations = client.call("POST", f"{path}/migrations", {"files": files, "plan": True})["applied"]
    return {**plan, "migrations": migrations, "warnings": warnings}


def upload_size(bundle: Bundle, digests: list[str]) -> int:
    """Return the total size of blobs in bytes."""
    contents = bundle.contents()
    return sum(_size(contents[Digest(digest)]) for digest in digests)


def upload(client: Client, bundle: Bundle, missing: list[str], progress: OnProgress) -> int:
    """Upload missing blobs, package documents last; return their bytes. Interrupted uploads resume."""
    contents = bundle.contents()
    documents = {digest for digest, _ in bundle.packages.values()}
    sizes = {digest: _size(contents[Digest(digest)]) for digest in missing}
    total, sent = sum(sizes.values()), 0
    for last in (False, True):
        group = [digest for digest in missing if (digest in documents) is last]
        with ThreadPoolExecutor(MAX_CONCURRENT_UPLOADS, thread_name_prefix="upload") as threads:
            for digest in threads.map(lambda blob: _send(client, bundle.project, blob, contents), group):
                sent += sizes[digest]
                progress(DeployProgress("upload", f"{size(sent)} of {size(total)}", transient=True))
    return total


def _send(client: Client, project: str, digest: str, contents: Mapping[Digest, bytes | Path]) -> str:
    content = contents[Digest(digest)]
    total, offset = _size(content), 0
    path = f"/v1/projects/{project}/blobs/{digest}"
    for attempt in range(MAX_ATTEMPTS):
        try:
            params = {"size": total, "offset": offset}
            client.call("PUT", path, content=_chunks(content, offset), params=params)
            return digest
        except ApiError as error:
            if error.code not in ("conflict", "upload-busy") or attempt == MAX_ATTEMPTS - 1:
                raise
            if error.code == "upload-busy":
                time.sleep(BUSY_SECONDS * 2**attempt)
            # A blob of which all bytes were received is not complete before a request that ends there.
            offset = min(client.call("GET", path)["received"], total)
    raise AssertionError


def deploy(
    client: Client,
    bundle: Bundle,
    revision: int | None,
    progress: OnProgress,
    *,
    commit: str,
    message: str,
    allow: bool,
    discard: bool = False,
) -> dict[str, Any]:
    """Deploy a bundle and return the live deployment. Files that the service finds damaged are sent again.

    Raises `ApiError` if the service rejects it, and `SvcError` if the connection breaks.
    """
    body = {
        "manifest": bundle.manifest,
        "packages": {name: digest for name, (digest, _) in bundle.packages.items()},
        "revision": revision,
        "commit": commit,
        "message": message,
        "allow_new_capability": allow,
        "discard_mounts": discard,
        "tables": dict(bundle.tables),
    }
    for _ in bundle.contents():
        try:
            return _deploy(client, bundle.project, body, progress)
        except ApiError as error:
            lost = error.code in ("blob-damaged", "blob-missing")
            missing = plan(client, bundle)["missing"] if lost else []
            if not missing:
                raise
        upload(client, bundle, missing, progress)
    return _deploy(client, bundle.project, body, progress)


def _deploy(client: Client, project: str, body: dict[str, Any], progress: OnProgress) -> dict[str, Any]:
    for line in client.lines("POST", f"/v1/projects/{project}/deployments", body=body):
        if "done" in line:
            return dict(line["done"])
        progress(DeployProgress("policy" if line["step"] == "policy" else "activate", line["text"]))
    raise SvcError(
        "lost the connection to the service during the deploy; it may be live",
        "Run `svc deployments` to check, then deploy again if needed.",
        code="unreachable",
    )


def await_certificates(
    client: Client, project: str, since: str, note: Callable[[str], None]
) -> dict[str, Any]:
    """Wait for the domains of a live project that were declared after a time, and for its certificate.

    Return both in their last state. `note` gets a line if there is something to wait for.
    """
    deadline = 0.0
    while True:
        listed: dict[str, Any] = client.call("GET", f"/v1/projects/{project}/domains")
        new = (each for each in listed["domains"] if each["declared"] >= since)
        states = [certificate_state(listed["certificate"])[0], *(domain_state(each)[0] for each in new)]
        if "waiting" not in states or (deadline and time.monotonic() > deadline):
            return listed
        if not deadline:
            deadline = time.monotonic() + CERTIFICATE_SECONDS
            note("  waiting for domains and certificates; Ctrl+C does not undo the deploy")
        time.sleep(1)


def commit_of(root: Path) -> str:
    """Return the short hash of the git commit, with a `+` if files are modified; empty outside of git."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return f"{head}+" if _git(root, "status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    result = subprocess.run(command, capture_output=True, check=True, timeout=GIT_TIMEOUT_SECONDS)
    return result.stdout.decode(errors="replace").strip()


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _chunks(content: bytes | Path, offset: int) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content[offset:]
        return
    with content.open("rb") as file:
        file.seek(offset)
        while data := file.read(CHUNK_BYTES):
            yield data
