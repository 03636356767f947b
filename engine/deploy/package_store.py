"""Packages in a bucket's blobs, and their unpacked artifacts in a local folder.

A package is a document that names the files of an artifact, each of which is a blob. Unchanged files are
never uploaded again. The document is a blob too, and its sha256 is the package's name. It is canonical JSON
in UTF-8 (sorted keys, no spaces), so equal artifacts make equal packages:
`{"files":{"component.wasm":["<sha256>",<bytes>],…},"kind":"component","version":1}`.

In version 2, `"stored":{"component.wasm":[["<sha256>",<bytes>],…],…}` has the blob of each file's compressed
form, and that of the compressed template from which the file differs, if there is one. A component is
unpacked in these forms, and `read_component` puts it together. Packages link one copy of a template.

A package is unpacked under a temporary name, so a folder with the name of a package is complete. Clients
upload a package's document last, so a package whose document exists is complete too.
"""

import asyncio
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args
from weakref import WeakValueDictionary

from engine.artifact import Artifact, ArtifactKind, ComponentArtifact, StaticBundle
from engine.bucket.blobs import Blobs
from engine.bucket.protocols import BadName, BlobMissing, Digest, as_digest, is_digest
from engine.cancellation import run_all
from engine.errors import SvcError
from engine.files.atomic import link_or_copy
from engine.files.compressed import FRAME, FrameCorrupt, compress, decompress
from engine.files.sealed import content_digest
from engine.static_files.bundle import BLOBS, INDEX, BundleCorrupt, blob_path, read_index
from engine.wasm.compile.compilers import MAX_COMPONENT_BYTES
from engine.wasm.compile.component_file import TEMPLATE

VERSION = 2
COMPONENT, SCRIPT, SOURCE_MAP = "component.wasm", "script.js", "source.map"
DOCUMENT = "package.json"
"""The document of a package in its unpacked folder."""

_MAIN: Mapping[ArtifactKind, str] = {"component": COMPONENT, "image": INDEX}
_NAMED = (("component", COMPONENT), ("component", SCRIPT), ("component", SOURCE_MAP), ("image", INDEX))
"""Kinds and names of files; all others are blobs of an image, and named by their digests."""
_DOCUMENT = re.compile(rb'\{"files":\{(.*)\},"kind":"([a-z]+)","version":([0-9]{1,9})\}', re.DOTALL)
_ENTRY = re.compile(rb'"([^"\\]{1,80})":\["([0-9a-f]{64})",(0|[1-9][0-9]{0,17})\](?:,|\Z)')
SMALL_BYTES = 1 << 20
"""Documents up to this size may be any JSON. `json` holds the interpreter while it reads one."""
_REBUILD = "Build again: svc build --no-cache"


class PackageError(SvcError):
    """An artifact cannot be packed, or a package is invalid."""

    code = "package"


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One file of a package: its sha256, which names its blob, and its size in bytes.

    A file that is `stored` in another form has no blob: that form has one, and the template another.
    """

    digest: Digest
    size: int
    stored: tuple["PackageFile", ...] = ()


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
        return frozenset(blob.digest for part in self.files.values() for blob in part.stored or (part,))

    @property
    def template(self) -> PackageFile | None:
        """The blob of the component's template."""
        parts = self.files[COMPONENT].stored if self.kind == "component" else ()
        return parts[1] if len(parts) > 1 else None

    def encode(self) -> bytes:
        """Return the document."""
        files = {name: [part.digest, part.size] for name, part in self.files.items()}
        stored = {
            name: [[blob.digest, blob.size] for blob in part.stored]
            for name, part in self.files.items()
            if part.stored
        }
        document: dict[str, Any] = {"version": 1, "kind": self.kind, "files": files}
        if stored:
            document |= {"version": VERSION, "stored": stored}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode(document: bytes) -> Package:
    """Return the package of a document. Raises `PackageError`."""
    try:
        read = json.loads(document) if len(document) <= SMALL_BYTES else _canonical(document)
        if isinstance(read, dict) and isinstance(read.get("version"), int) and read["version"] > VERSION:
            raise PackageError("the package was made by a newer svc", "Update svc.")
        if read["version"] not in (1, VERSION) or read["kind"] not in get_args(ArtifactKind):
            raise ValueError
        kind: ArtifactKind = read["kind"]
        stored = read["stored"] if read["version"] > 1 else {}
        files = {
            name: _part(kind, name, entry, stored.get(name, [])) for name, entry in read["files"].items()
        }
        if _MAIN[kind] not in files or stored.keys() - files.keys():
            raise ValueError
        return Package(kind, files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadName) as error:
        hint = "Run svc deploy again."
        raise PackageError("the package is corrupt: not a package document", hint) from error


def _canonical(document: bytes) -> dict[str, Any]:
    """Parse a canonical document file by file, so that other threads run meanwhile. Raises ValueError."""
    match = _DOCUMENT.fullmatch(document)
    if match is None:
        raise ValueError("not canonical")
    text, kind, version = match.groups()
    files: dict[str, Any] = {}
    at = 0 if int(version) == 1 else len(text)
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            raise ValueError("not a file")
        files[entry[1].decode()] = [entry[2].decode(), int(entry[3])]
        at = entry.end()
    return {"version": int(version), "kind": kind.decode(), "files": files}


def _part(kind: ArtifactKind, name: str, entry: Any, stored: Any = ()) -> PackageFile:
    digest, size = entry
    if (kind, name) not in _NAMED and (kind, name) != ("image", f"{BLOBS}/{digest}"):
        raise ValueError(name)
    if type(size) is not int or size < 0:
        raise ValueError(size)
    if stored and (kind != "component" or len(stored) > 1 + (name == COMPONENT)):
        raise ValueError(name)
    return PackageFile(as_digest(digest), size, tuple(_part(kind, name, blob) for blob in stored))


@dataclass(frozen=True, slots=True)
class Packed:
    """A package and its contents: bytes, or files of the artifact."""

    package: Package
    contents: Mapping[Digest, bytes | Path]


def pack(artifact: Artifact) -> Packed:
    """Return the package of an artifact; blocks on reads. Raises `PackageError` and `BundleCorrupt`."""
    if isinstance(artifact, ComponentArtifact):
        kind: ArtifactKind = "component"
        sources: dict[str, bytes | Path] = {COMPONENT: artifact.component}
        if artifact.script is not None:
            sources[SCRIPT] = artifact.script.encode()
        if artifact.source_map is not None:
            sources[SOURCE_MAP] = artifact.source_map
    elif isinstance(artifact, StaticBundle):
        digests = {digest for file in read_index(artifact) for digest, _ in file.encodings.values()}
        blobs = {f"{BLOBS}/{digest}": blob_path(artifact.folder, digest) for digest in sorted(digests)}
        sources = {INDEX: artifact.folder / INDEX, **blobs}
        kind = "image"
    else:
        hint = "Build it in deploy mode."
        raise PackageError(f"the folder {artifact.root} is served as it is and has no artifact", hint)
    try:
        files = {name: _measured(source) for name, source in sources.items()}
    except OSError as error:
        raise PackageError(f"cannot read {error.filename}: {error.strerror}", _REBUILD) from error
    package = Package(kind, files)
    if package.artifact != artifact.digest:
        raise PackageError(f"the artifact sha256:{artifact.digest} has changed since it was built", _REBUILD)
    return Packed(package, {files[name].digest: source for name, source in sources.items()})


def pack_compressed(artifact: Artifact) -> Packed:
    """Return the package of an artifact with the files of a component compressed. Raises as `pack` does."""
    packed = pack(artifact)
    if not isinstance(artifact, ComponentArtifact):
        return packed
    files, contents = {}, dict[Digest, bytes | Path]()
    try:
        frame = artifact.template.read_bytes() if artifact.template is not None else b""
        template = decompress(frame, limit=MAX_COMPONENT_BYTES) if frame else b""
        for name, part in packed.package.files.items():
            source = packed.contents[part.digest]
            content = source.read_bytes() if isinstance(source, Path) else source
            parts = [compress(content, template if name == COMPONENT else b"")]
            parts += [frame] if template and name == COMPONENT else []
            blobs = [(_measured(each), each) for each in parts]
            files[name] = replace(part, stored=tuple(blob for blob, _ in blobs))
            contents |= {blob.digest: each for blob, each in blobs}
    except (OSError, FrameCorrupt) as error:
        raise PackageError(f"cannot compress the artifact: {error}", _REBUILD) from error
    return Packed(Package("component", files), contents)


def _measured(source: bytes | Path) -> PackageFile:
    if isinstance(source, bytes):
        return PackageFile(Digest(hashlib.sha256(source).hexdigest()), len(source))
    with source.open("rb") as file:
        digest = Digest(hashlib.file_digest(file, "sha256").hexdigest())
        return PackageFile(digest, file.tell())


MAX_CONCURRENT = 8
MAX_DOCUMENT_BYTES = 32 << 20
"""Maximum size of a package's document, for some 200,000 files."""
MAX_TEXT_BYTES = 64 << 20
"""Maximum size of the script and of the source map of a component, which are held in memory."""
_REDEPLOY = "Run svc deploy in the project again."
_NEW, _REMOVED = ".new-", ".gone-"
_TEMPLATES = "templates"
_FETCHING = WeakValueDictionary[Path, asyncio.Lock]()
"""Locks of the files of templates that are being unpacked."""


async def missing(blobs: Blobs, package: Package) -> frozenset[Digest]:
    """Return the contents that must be uploaded. The others count as used now, so they are not collected."""
    digests = sorted(package.digests)
    present = await run_all(blobs.touch, digests, MAX_CONCURRENT)
    return frozenset(digest for digest, exists in zip(digests, present, strict=True) if not exists)


async def load(blobs: Blobs, digest: Digest) -> Package:
    """Return a package of the bucket. Raises `BlobMissing`, `BlobDamaged` and `PackageError`."""
    return await asyncio.to_thread(decode, await _document(blobs, digest))


async def _document(blobs: Blobs, digest: Digest) -> bytes:
    document = bytearray()
    async with aclosing(blobs.read(digest)) as chunks:
        async for chunk in chunks:
            document += chunk
            if len(document) > MAX_DOCUMENT_BYTES:
                raise _too_large("the document of the package", MAX_DOCUMENT_BYTES)
    return bytes(document)


async def sizes(blobs: Blobs, packages: Iterable[Digest]) -> dict[Digest, int]:
    """Return the sizes of packages in bytes, omitting unreadable ones."""
    found = {}
    for digest in packages:
        with suppress(SvcError):
            package = await load(blobs, digest)
            found[digest] = sum(file.size for file in package.files.values())
    return found


async def touch(blobs: Blobs, digest: Digest) -> Package:
    """Return a complete package and mark its blobs as used now. Raises as `load` does."""
    if not await blobs.touch(digest):
        raise BlobMissing(digest)
    package = await load(blobs, digest)
    for missing_blob in sorted(await missing(blobs, package)):
        raise BlobMissing(missing_blob)
    return package


async def unpack(blobs: Blobs, digest: Digest, folder: Path, *, verify: bool = True) -> Artifact:
    """Return the artifact of a package, unpacked below `folder` in a folder with the package's name.

    A folder that exists counts as used now. Its files are verified, or only their sizes without `verify`. A
    complete one needs no bucket: a node of a fleet without a majority has none. Raises as `load` does, and
    `PackageError` if the disk fails.
    """
    root = folder / digest
    own = await asyncio.to_thread(_own_document, root, digest)
    document = own or await _document(blobs, digest)
    package = await asyncio.to_thread(decode, document)
    try:
        with suppress(FileNotFoundError):
            os.utime(root)
        if not await asyncio.to_thread(_is_complete, package, root, verify=verify):
            await _unpack(blobs, package, root)
        if own is None:
            await asyncio.to_thread((root / DOCUMENT).write_bytes, document)
        return await asyncio.to_thread(_artifact, package, root)
    except OSError as error:
        raise PackageError(
            f"cannot unpack package sha256:{digest} to {root}: {error.strerror}",
            "Check the permissions of the folder and the free space of its disk.",
            code="unavailable",
            public_message=f"cannot unpack package sha256:{digest}: {error.strerror}",
        ) from error


def _own_document(root: Path, digest: Digest) -> bytes | None:
    """Return the document of a package in its unpacked folder, unless that is missing or damaged."""
    try:
        document = (root / DOCUMENT).read_bytes()
    except OSError:
        return None
    return document if hashlib.sha256(document).hexdigest() == digest else None


def unpacker(blobs: Blobs, folder: Path) -> Callable[[str, bool], Awaitable[Artifact]]:
    """Return a function that calls `unpack` with a digest, and whether to verify the files."""
    return lambda digest, verify: unpack(blobs, as_digest(digest), folder, verify=verify)


async def _unpack(blobs: Blobs, package: Package, root: Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=root.parent, prefix=_NEW))
    try:
        (new / BLOBS).mkdir()
        await run_all(
            lambda name: blobs.copy_to(_blob(package, name).digest, new / name), package.files, MAX_CONCURRENT
        )
        if (template := package.template) is not None:
            shared = await _template(blobs, template.digest, root.parent / _TEMPLATES / template.digest)
            await asyncio.to_thread(link_or_copy, shared, new / TEMPLATE)
        new.chmod(0o755)
        await asyncio.to_thread(_name, package, new, root)
    finally:
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)


async def _template(blobs: Blobs, digest: Digest, folder: Path) -> Path:
    """Return the file of a template in a folder of its own, which all unpacked packages link."""
    path = folder / TEMPLATE
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    # A node that joins a fleet unpacks hundreds of packages at once, and all need the same template.
    async with _FETCHING.setdefault(path, asyncio.Lock()):
        if not await asyncio.to_thread(_is_whole, path, digest):
            new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_NEW))
            try:
                await blobs.copy_to(digest, new / TEMPLATE)
                (new / TEMPLATE).replace(path)
            finally:
                await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
    return path


def _is_whole(path: Path, digest: Digest) -> bool:
    """Return whether a file has its digest. One that was not changed since is not read again."""
    try:
        status = path.stat()
        return _digest(path, (status.st_dev, status.st_ino, status.st_mtime_ns)) == digest
    except FileNotFoundError:
        return False


@lru_cache(maxsize=64)
def _digest(path: Path, _identity: tuple[int, ...]) -> str:
    return content_digest(path)


def _blob(package: Package, name: str) -> PackageFile:
    """Return the blob that is unpacked as a file."""
    part = package.files[name]
    return part.stored[0] if part.stored else part


def _name(package: Package, new: Path, root: Path) -> None:
    """Rename an unpacked folder to its final name, unless another process was first."""
    if root.exists():
        if _is_complete(package, root):
            return
        shutil.rmtree(root)
    try:
        new.replace(root)
    except OSError:
        if not _is_complete(package, root):
            raise


def _is_complete(package: Package, root: Path, *, verify: bool = True) -> bool:
    try:
        template = package.template
        if not verify:
            return (template is None or (root / TEMPLATE).exists()) and all(
                (root / name).stat().st_size == _blob(package, name).size for name in package.files
            )
        if template is not None and not _is_whole(root / TEMPLATE, template.digest):
            return False
        return all(content_digest(root / name) == _blob(package, name).digest for name in package.files)
    except FileNotFoundError:
        return False


async def evict_unpacked(
    folder: Path, needed: AbstractSet[Digest], before_ns: int, *, count_only: bool = False
) -> int:
    """Remove, or only count, unpacked packages that are not needed and were not used since `before_ns`.

    Blobs stay: where unpacked files are hard links, the blobs' names remain. Returns the number of folders.
    Raises `PackageError` if the disk fails.
    """
    evicted = 0
    try:
        unpacked = await asyncio.to_thread(lambda: [*_unpacked(folder), *_unpacked(folder / _TEMPLATES)])
        for path in unpacked:
            if path.name in needed or not _unused(path, before_ns):
                continue
            evicted += 1
            if count_only:
                continue
            # `unpack` marks its folder on this thread too, so not between the check and the rename.
            renamed = path if path.name.startswith(_REMOVED) else folder / f"{_REMOVED}{secrets.token_hex(8)}"
            path.rename(renamed)
            await asyncio.to_thread(shutil.rmtree, renamed)
    except OSError as error:
        raise PackageError(
            f"cannot remove unpacked packages in {folder}: {error.strerror}",
            "Check the permissions of the folder.",
            code="unavailable",
            public_message=f"cannot remove unpacked packages: {error.strerror}",
        ) from error
    return evicted


def _unpacked(folder: Path) -> list[Path]:
    """Return the unpacked packages in a folder, including incomplete ones."""
    try:
        return [
            path
            for path in folder.iterdir()
            if is_digest(path.name) or path.name.startswith((_NEW, _REMOVED))
        ]
    except FileNotFoundError:
        return []


def _unused(path: Path, before_ns: int) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_mtime_ns < before_ns


def _artifact(package: Package, root: Path) -> Artifact:
    for name in package.files:
        part = _blob(package, name)
        if (root / name).stat().st_size != part.size:
            raise PackageError(f"the package is corrupt: the size of {name} is not {part.size:,}", _REDEPLOY)
    if package.kind == "image":
        return _image(package, root)
    if package.files[COMPONENT].stored:
        # Only the content of a frame is verified when it is read.
        with (root / COMPONENT).open("rb") as file:
            if file.read(len(FRAME)) != FRAME:
                raise PackageError(f"the package is corrupt: {COMPONENT} is not compressed", _REDEPLOY)
    texts = {
        name: _text(package.files[name], root / name)
        for name in (SCRIPT, SOURCE_MAP)
        if name in package.files
    }
    try:
        script = texts[SCRIPT].decode() if SCRIPT in texts else None
    except UnicodeDecodeError as error:
        raise PackageError(
            "the package is corrupt: the script of its component is not UTF-8", _REDEPLOY
        ) from error
    return ComponentArtifact(root / COMPONENT, package.artifact, script, texts.get(SOURCE_MAP))


def _text(part: PackageFile, path: Path) -> bytes:
    if part.size > MAX_TEXT_BYTES:
        raise _too_large(path.name, MAX_TEXT_BYTES)
    text = path.read_bytes()
    if not part.stored:
        return text
    try:
        text = decompress(text, limit=part.size)
    except FrameCorrupt as error:
        raise PackageError(f"the package is corrupt: {path.name}: {error}", _REDEPLOY) from error
    if hashlib.sha256(text).hexdigest() != part.digest:
        raise PackageError(f"the package is corrupt: {path.name} has another digest", _REDEPLOY)
    return text


def _too_large(what: str, limit: int) -> PackageError:
    return PackageError(f"{what} is larger than {limit >> 20} MiB", "Deploy fewer or smaller files.")


def _image(package: Package, root: Path) -> StaticBundle:
    """Return a static bundle after checking its index, which the client made, against its files."""
    image = StaticBundle(root, package.artifact)
    try:
        indexed = {encoding for file in read_index(image) for encoding in file.encodings.values()}
    except BundleCorrupt as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from error
        raise PackageError("the package is corrupt: missing or invalid file index", _REDEPLOY) from error
    for digest, size in indexed:
        part = package.files.get(f"{BLOBS}/{digest}")
        if part is None or part.digest != digest or blob_path(root, digest).stat().st_size != size:
            raise PackageError("the package is corrupt: files of its index are missing", _REDEPLOY)
    return image
