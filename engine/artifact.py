"""Artifacts: immutable build results, named by sha256, that the engine serves."""

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Literal

ArtifactKind = Literal["component", "image"]
"""Kind of a build result: a component that runs, or a static bundle ("image") of files to serve."""


@dataclass(frozen=True, slots=True)
class FolderArtifact:
    """A folder served from disk at each request: a static resource without `build`, in development.

    `rule_files` has names and contents of its files with redirects and headers.
    """

    root: Path
    rule_files: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of a static bundle.

    `encodings` maps a content coding (`identity`, `br`, `gzip`) to the blob's sha256 and size in bytes.
    `identity` always exists, the others only if they are smaller. `hashed` is true if a bundler put a hash of
    the content into the name.
    """

    path: str
    content_type: str
    encodings: dict[str, tuple[str, int]]
    hashed: bool = False


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

    `component` is the file (`compile/component_file.py`) and `digest` the sha256 (hex) of the component.
    `script` is JavaScript that the dev loader requests from the host at each request (`svc:dev/script`).
    `snapshot` serves instead of both once it is made: a component in which the script was evaluated.
    `source_map` (Source Map v3, JSON) maps stack frames of the guest to the user's files.
    `inputs` are files that the build read and whose change must start another one: those outside `workdir`
    at least, and any inside that `.gitignore` may name. `template` is the compressed component
    (`files/compressed.py`) from which this one differs little.
    """

    component: Path
    digest: str
    script: str | None = None
    source_map: bytes | None = None
    inputs: frozenset[Path] = field(default_factory=frozenset)
    _: KW_ONLY
    snapshot: "ComponentArtifact | None" = None
    template: Path | None = None


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """A deployed artifact by its digest and that of its package, which is unpacked when it is needed."""

    package: str
    digest: str


Artifact = FolderArtifact | StaticBundle | ComponentArtifact
