"""Artifacts of a capsule: building and packing them, and unpacking them again."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import Artifact, ComponentArtifact, FolderArtifact, StaticBundle
from engine.build.builder import Builder
from engine.deploy.package import COMPONENT, SCRIPT, SOURCE_MAP, PackageError, decode, pack
from engine.errors import SvcError
from engine.lane import BuildMode
from engine.manifest.model import Project
from svc_tui.capsule.container import Capsule, CapsuleError
from svc_tui.composition import lanes

PACKAGE = "package.json"


@dataclass(frozen=True, slots=True)
class PackedArtifact:
    """An artifact: its digest (that of its package), its kind, and its files by name."""

    digest: str
    kind: str
    files: Mapping[str, bytes | Path]

    def head(self, *, included: bool) -> dict[str, Any]:
        """Return the entry of `capsule.json`."""
        return {"kind": self.kind, "sha256": self.digest, "included": included}


async def build_artifacts(
    project: Project, names: Iterable[str], cache: Path, mode: BuildMode, report: Callable[[str], None]
) -> dict[str, Artifact]:
    """Build resources, or find earlier builds of the same sources. Raises the errors of builds."""
    from lanes.static.pack import Packing
    from lanes.static.pack import pack as pack_folder

    available = lanes()
    builder = Builder(available, cache, mode, os.environ)
    workers = ThreadPoolExecutor(os.cpu_count() or 1)
    built: dict[str, Artifact] = {}
    try:
        for name in names:
            resource = project.resources[name]
            artifact = await builder.remembered(resource, project.root)
            if artifact is None:
                artifact = await builder.build(resource, project.root, report, remember=False)
            if isinstance(artifact, FolderArtifact):
                artifact = await pack_folder(
                    artifact.root, Packing(cache, 5, 6, workers, report, verify=False)
                )
            built[name] = artifact
    finally:
        workers.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(*(lane.aclose() for lane in available.values()))
    return built


def packed(artifact: Artifact) -> PackedArtifact:
    """Return the files of an artifact. Raises `SvcError`."""
    contents = pack(artifact)
    document = contents.package.encode()
    files = {name: contents.contents[part.digest] for name, part in contents.package.files.items()}
    return PackedArtifact(sha256(document).hexdigest(), contents.package.kind, {PACKAGE: document, **files})


def unpacked(capsule: Capsule, resource: str) -> Artifact:
    """Return the artifact of a resource in a capsule. Raises `CapsuleError`."""
    folder = capsule.folder / "artifacts" / resource
    try:
        package = decode(capsule.bytes(f"artifacts/{resource}/{PACKAGE}"))
        for name, part in package.files.items():
            member = f"artifacts/{resource}/{name}"
            if not capsule.has(member) or tuple(capsule.head["members"][member]) != (part.digest, part.size):
                raise PackageError(f"{name} differs from its digest or size in {PACKAGE}")
        if package.kind == "image":
            return StaticBundle(folder, package.artifact)
        prefix = f"artifacts/{resource}"
        script = capsule.bytes(f"{prefix}/{SCRIPT}").decode() if SCRIPT in package.files else None
        source_map = capsule.bytes(f"{prefix}/{SOURCE_MAP}") if SOURCE_MAP in package.files else None
        return ComponentArtifact(folder / COMPONENT, package.artifact, script, source_map)
    except (PackageError, UnicodeDecodeError) as error:
        reason = error.message if isinstance(error, SvcError) else "its script is not UTF-8"
        raise CapsuleError(
            f"the artifact of resource {resource} in the capsule is invalid: {reason}",
            "Make the capsule again.",
        ) from error
