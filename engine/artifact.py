"""What a lane makes of a Resource: immutable values, named by sha256, that the engine can serve.

Owns the artifact kinds and the format of a static image's index; it builds and serves nothing.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ArtifactKind = Literal["component", "image"]
"""What a Resource is built to: a component that runs, or an image of files to serve."""


@dataclass(frozen=True, slots=True)
class FolderArtifact:
    """A folder served as it is on disk at each request: a static Resource without `build`, in dev."""

    root: Path


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a static image.

    `encodings` maps a content coding (`identity`, `br`, `gzip`) to the blob's sha256 and size in bytes;
    `identity` is always there, the others only where they are smaller.
    """

    path: str
    content_type: str
    encodings: dict[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class StaticBundle:
    """A packed folder of files: `folder/index.json` and `folder/blobs/<sha256>`.

    `digest` is the sha256 (hex) of `index.json`, which is canonical: equal files make equal digests.
    """

    folder: Path
    digest: str


@dataclass(frozen=True, slots=True)
class ComponentArtifact:
    """A component that exports `wasi:http/incoming-handler`.

    `component` is the file and `digest` its sha256 (hex). `script` is JavaScript that the component asks
    its host for at each request (`svc:dev/script`): the dev loader's way to run what was just saved.
    `source_map` (Source Map v3, JSON) leads from the stacks that the guest prints to the user's files.
    `inputs` are files that the build read and whose change must start another one: those outside `workdir`
    at least, and any inside that `.gitignore` may name.
    """

    component: Path
    digest: str
    script: str | None = None
    source_map: bytes | None = None
    inputs: frozenset[Path] = field(default_factory=frozenset)


Artifact = FolderArtifact | StaticBundle | ComponentArtifact
