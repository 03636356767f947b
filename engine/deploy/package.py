"""Packages: documents that name the files of an artifact, each of which is a blob.

Unchanged files are never uploaded again. The document is a blob too, and its sha256 is the package's name.
It is canonical JSON in UTF-8 (sorted keys, no spaces), so equal artifacts make equal packages:
`{"files":{"component.wasm":["<sha256>",<bytes>],…},"kind":"component","version":1}`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from engine.artifact import Artifact, ArtifactKind, ComponentArtifact, StaticBundle
from engine.bucket.errors import BadName
from engine.bucket.protocols import Digest, as_digest
from engine.errors import SvcError
from engine.static_files.bundle import BLOBS, INDEX, blob_path, read_index

VERSION = 1
COMPONENT, SCRIPT, SOURCE_MAP = "component.wasm", "script.js", "source.map"

_MAIN: Mapping[ArtifactKind, str] = {"component": COMPONENT, "image": INDEX}
_NAMED = (("component", COMPONENT), ("component", SCRIPT), ("component", SOURCE_MAP), ("image", INDEX))
"""Kinds and names of files; all others are blobs of an image, and named by their digests."""
_DOCUMENT = re.compile(rb'\{"files":\{(.*)\},"kind":"([a-z]+)","version":([0-9]{1,9})\}', re.DOTALL)
_ENTRY = re.compile(rb'"([^"\\]{1,80})":\["([0-9a-f]{64})",(0|[1-9][0-9]{0,17})\](?:,|\Z)')
SMALL_BYTES = 1 << 20
"""Documents up to this size may be any JSON. `json` holds the interpreter while it reads one."""


class PackageError(SvcError):
    """An artifact cannot be packed, or a package is invalid."""

    code = "package"


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One file of a package: its blob, and its size in bytes."""

    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class Package:
    """The files of an artifact by name: paths in the folder that it is unpacked to."""

    kind: ArtifactKind
    files: Mapping[str, PackageFile]

    @property
    def artifact(self) -> Digest:
        """The artifact's own name: the sha256 of the component or of the image's index."""
        return self.files[_MAIN[self.kind]].digest

    @property
    def digests(self) -> frozenset[Digest]:
        """The blobs of all files."""
        return frozenset(part.digest for part in self.files.values())

    def encode(self) -> bytes:
        """Return the document."""
        files = {name: [part.digest, part.size] for name, part in self.files.items()}
        document = {"version": VERSION, "kind": self.kind, "files": files}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode(document: bytes) -> Package:
    """Return the package of a document. Raises `PackageError`."""
    try:
        read = json.loads(document) if len(document) <= SMALL_BYTES else _canonical(document)
        if isinstance(read, dict) and isinstance(read.get("version"), int) and read["version"] > VERSION:
            raise PackageError("the package was made by a newer svc", "Update svc.")
        if read["version"] != VERSION or read["kind"] not in get_args(ArtifactKind):
            raise ValueError
        kind: ArtifactKind = read["kind"]
        files = {name: _part(kind, name, entry) for name, entry in read["files"].items()}
        if _MAIN[kind] not in files:
            raise ValueError
        return Package(kind, files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadName) as error:
        raise PackageError(
            "the package is corrupt: not a package document", "Run svc deploy again."
        ) from error


def _canonical(document: bytes) -> dict[str, Any]:
    """Parse a canonical document file by file, so that other threads run meanwhile. Raises ValueError."""
    match = _DOCUMENT.fullmatch(document)
    if match is None:
        raise ValueError("not canonical")
    text, kind, version = match.groups()
    files: dict[str, Any] = {}
    at = 0 if int(version) == VERSION else len(text)
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            raise ValueError("not a file")
        files[entry[1].decode()] = [entry[2].decode(), int(entry[3])]
        at = entry.end()
    return {"version": int(version), "kind": kind.decode(), "files": files}


def _part(kind: ArtifactKind, name: str, entry: Any) -> PackageFile:
    digest, size = entry
    if (kind, name) not in _NAMED and (kind, name) != ("image", f"{BLOBS}/{digest}"):
        raise ValueError(name)
    if type(size) is not int or size < 0:
        raise ValueError(size)
    return PackageFile(as_digest(digest), size)


@dataclass(frozen=True, slots=True)
class Packed:
    """A package and its contents: bytes, or files of the artifact."""

    package: Package
    contents: Mapping[Digest, bytes | Path]


def pack(artifact: Artifact) -> Packed:
    """Return the package of an artifact; blocks on reads. Raises `PackageError` and `BundleCorrupt`."""
    if isinstance(artifact, ComponentArtifact):
        sources = _component(artifact)
        kind: ArtifactKind = "component"
    elif isinstance(artifact, StaticBundle):
        sources = _image(artifact)
        kind = "image"
    else:
        raise PackageError(
            f"the folder {artifact.root} is served as it is and has no artifact",
            "Build it in deploy mode.",
        )
    try:
        files = {name: _measured(source) for name, source in sources.items()}
    except OSError as error:
        raise PackageError(
            f"cannot read {error.filename}: {error.strerror}", "Build again: svc build --no-cache"
        ) from error
    package = Package(kind, files)
    if package.artifact != artifact.digest:
        raise PackageError(
            f"the artifact sha256:{artifact.digest} has changed since it was built",
            "Build again: svc build --no-cache",
        )
    return Packed(package, {files[name].digest: source for name, source in sources.items()})


def _component(artifact: ComponentArtifact) -> dict[str, bytes | Path]:
    sources: dict[str, bytes | Path] = {COMPONENT: artifact.component}
    if artifact.script is not None:
        sources[SCRIPT] = artifact.script.encode()
    if artifact.source_map is not None:
        sources[SOURCE_MAP] = artifact.source_map
    return sources


def _image(artifact: StaticBundle) -> dict[str, bytes | Path]:
    digests = {digest for file in read_index(artifact) for digest, _ in file.encodings.values()}
    blobs = {f"{BLOBS}/{digest}": blob_path(artifact.folder, digest) for digest in sorted(digests)}
    return {INDEX: artifact.folder / INDEX, **blobs}


def _measured(source: bytes | Path) -> PackageFile:
    if isinstance(source, bytes):
        return PackageFile(Digest(hashlib.sha256(source).hexdigest()), len(source))
    with source.open("rb") as file:
        digest = Digest(hashlib.file_digest(file, "sha256").hexdigest())
        return PackageFile(digest, file.tell())
