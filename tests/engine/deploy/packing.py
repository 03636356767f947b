"""Artifacts of every kind, and deployments of them, for the tests of stored deployments."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import Artifact, ComponentArtifact
from engine.bucket.blobs import Blobs
from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import Digest
from engine.deploy.deployment import DeployedResource, Deployment
from engine.deploy.package_store import Packed, missing, pack
from engine.lane import BuildRequest
from engine.manifest.model import Mount, Resource
from lanes.static.lane import StaticLane
from tests.lanes.components import component
from tests.support.blobs import put

FILES = {"index.html": "<p>ü</p>" * 500, "a b/ü.css": "p{}" * 500, "empty": "", "copy.html": "<p>ü</p>" * 500}
RESOURCE = Resource(
    "web",
    "js",
    Path("/somewhere"),
    public=True,
    mounts=(Mount("/b/*", "b"), Mount("/a", "a")),
    run_limit_secs=7,
    memory_limit_mb=64,
    reads="stale",
    egress=("https://api.example.com",),
    env={"GREETING": "ü \n"},
    secrets=("TOKEN",),
)


def opened(root: Path, scenario: Callable[[FolderBucket], Awaitable[Any]]) -> Any:
    """Run a scenario on the bucket of a folder."""

    async def main() -> Any:
        bucket = FolderBucket(root)
        try:
            return await scenario(bucket)
        finally:
            await bucket.aclose()

    return asyncio.run(main())


def component_artifact(
    folder: Path, note: str = "", script: str | None = None, source_map: bytes | None = None
) -> ComponentArtifact:
    content = component(note=note)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{note or 'made'}.wasm"
    path.write_bytes(content)
    return ComponentArtifact(path, sha256(content).hexdigest(), script, source_map, frozenset({path}))


def image_artifact(folder: Path, files: dict[str, str] | None = None) -> Artifact:
    """Build a static bundle in deploy mode."""
    site = folder / "site"
    for name, text in (files or FILES).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)

    async def main() -> Artifact:
        lane = StaticLane()
        try:
            resource = Resource("site", "static", folder, output=site)
            return await lane.build(BuildRequest(resource, folder, folder / "cache", "deploy"))
        finally:
            await lane.aclose()

    return asyncio.run(main())


@dataclass(frozen=True)
class Stored:
    """A package in the bucket, and the number of blobs sent for it."""

    package: Digest
    sent: int


async def store(blobs: Blobs, packed: Packed) -> Stored:
    """Send the missing blobs of a package, its document last, as a client does."""
    digests = await missing(blobs, packed.package)
    for digest in sorted(digests):
        assert await put(blobs, packed.contents[digest]) == digest
    return Stored(await put(blobs, packed.package.encode()), len(digests))


async def stored(bucket: FolderBucket, artifact: Artifact) -> Stored:
    return await store(bucket.blobs, pack(artifact))


async def deployment(
    bucket: FolderBucket, artifact: ComponentArtifact, id_: str, project: str = "shop"
) -> Deployment:
    """Store an artifact and return a Deployment that consists of it."""
    packed = await stored(bucket, artifact)
    part = DeployedResource.of(RESOURCE, packed.package, Digest(artifact.digest))
    return Deployment(
        id_,
        project,
        created_ns=1_700_000_000_000_000_001,
        by="ü",
        commit="4f2a",
        message="a message\n",
        resources={"web": part},
    )
