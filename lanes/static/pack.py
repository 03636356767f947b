"""Packing of an output folder: selection of files, the store of contents, and the bundle in the cache.

Files are `blobs/<sha256>` and `packed/<sha256>.<coding>-<quality>`. Writes are atomic and files never
change, so any number of processes can use the store. It can be deleted at any time.
"""

import asyncio
import gzip
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]

from engine.artifact import BundleFile, StaticBundle
from engine.build.ignore import IgnoreRules
from engine.files.atomic import link_or_copy, write_atomic
from engine.files.temporary import temporary_folder
from engine.lane import BuildFailed
from engine.static_files.bundle import (
    BLOBS,
    INDEX,
    blob_path,
    encode_index,
    has_blobs,
    index_digest,
    is_hidden,
    is_servable,
)
from engine.static_files.content_type import compressible, content_type


def walk(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the real path of each file below `root` to serve, by its path in the bundle (POSIX separators).

    Also return notes for the user about skipped files that may be missed. Raises OSError if a folder cannot
    be read.
    """
    real_root = Path(os.path.realpath(root))
    files: dict[str, Path] = {}
    notes: list[str] = []
    # Folders to read: path in the bundle, real path, real paths of the folders above it.
    pending: list[tuple[str, Path, frozenset[Path]]] = [("", real_root, frozenset())]
    while pending:
        prefix, folder, parents = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if not is_servable(entry.name):
                    if not is_hidden(entry.name):
                        notes.append(f"left out {prefix + entry.name!r}: its name is not valid in a URL")
                    continue
                name = prefix + entry.name
                path = Path(entry.path)
                if entry.is_symlink():
                    reason = _refusal(path, real_root)
                    if reason:
                        notes.append(f"left out {name}: {reason}")
                        continue
                    path = Path(os.path.realpath(path))
                mode = path.stat().st_mode
                if stat.S_ISDIR(mode):
                    if path == folder or path in parents:
                        notes.append(f"left out {name}: the link leads back to a folder that contains it")
                    else:
                        pending.append((name + "/", path, parents | {folder}))
                elif stat.S_ISREG(mode):
                    files[name] = path
                else:
                    notes.append(f"left out {name}: neither a file nor a folder")
    return files, sorted(notes)


def _refusal(link: Path, real_root: Path) -> str:
    """Return why a symlink is not followed; empty if it is."""
    target = Path(os.path.realpath(link))
    if not target.exists():
        return f"the link is broken ({link.readlink()})"
    if not target.is_relative_to(real_root):
        return f"the link leads out of the folder, to {target}"
    if not all(map(is_servable, target.relative_to(real_root).parts)):
        return f"the link leads to a hidden file, {target}"
    return ""


_CHUNK = 1024 * 1024
# Compression costs memory and time. Without these limits a large file would delay a build for minutes.
_LARGEST = 128 * 1024 * 1024
_LARGEST_AT_BEST = 8 * 1024 * 1024
_SMALL = 256 * 1024
_QUICK = 5
# At its best quality brotli takes seconds per megabyte, even for random bytes. Contents that the quick
# quality cannot reduce by this fraction stay at that quality.
_WORTH_MORE = 1 / 8


class Blob(NamedTuple):
    """A file content: its sha256 (hex) and its size in bytes."""

    sha256: str
    size: int


class BlobStore:
    """File contents by sha256. Methods block and can be called on any thread."""

    def __init__(self, folder: Path, *, verify: bool) -> None:
        """Store all files below `folder`, which is created if missing.

        `verify` compares the digests of cached files, not only their sizes.
        """
        self._folder, self._verify = folder, verify
        self._packed = folder / "packed"
        for each in (folder / BLOBS, self._packed):
            each.mkdir(parents=True, exist_ok=True)

    def path(self, blob: Blob) -> Path:
        return blob_path(self._folder, blob.sha256)

    def add(self, source: Path) -> Blob:
        """Add the current content of a file. Raises OSError if it cannot be read."""
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as original:  # noqa: PTH123
            return self._write(iter(lambda: original.read(_CHUNK), b""))

    def compressed(self, blob: Blob, coding: str, quality: int) -> Blob | None:
        """Return the `br` or `gzip` form of a blob, or `None` if it is not smaller.

        `quality` is the highest to try: 1 to 11 for `br`, 1 to 9 for `gzip`. The chosen one depends on the
        content alone. Results are cached. Raises OSError.
        """
        if blob.size > _LARGEST:
            return None
        if quality > _QUICK and blob.size > _SMALL:
            quick = self._at(blob, coding, _QUICK)
            if blob.size > _LARGEST_AT_BEST or quick is None:
                return quick
            if blob.size - quick.size < blob.size * _WORTH_MORE:
                return quick
        return self._at(blob, coding, quality)

    def _at(self, blob: Blob, coding: str, quality: int) -> Blob | None:
        note = self._packed / f"{blob.sha256}.{coding}-{quality}"
        recorded = self._known(note)
        if recorded is not None and recorded.size >= blob.size:
            return None
        if recorded is not None and has_blobs(self._folder, [recorded], verify=self._verify):
            return recorded
        data = self.path(blob).read_bytes()
        if coding == "br":
            compressed = bytes(brotli.compress(data, quality=quality))
        else:
            compressed = gzip.compress(data, compresslevel=quality, mtime=0)
        result = Blob(hashlib.sha256(compressed).hexdigest(), len(compressed))
        if result.size < blob.size:
            self._write([compressed])
        write_atomic(note, f"{result.sha256} {result.size}".encode())
        return result if result.size < blob.size else None

    @staticmethod
    def _known(note: Path) -> Blob | None:
        try:
            sha256, size = note.read_text("ascii").split()
            return Blob(sha256, int(size))
        except (OSError, ValueError):
            return None

    def _write(self, content: Iterable[bytes]) -> Blob:
        """Store a content. Its file has its name once it is complete."""
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self._folder / BLOBS, prefix="new-", delete=False) as copy:
            try:
                for chunk in content:
                    digest.update(chunk)
                    copy.write(chunk)
                    size += len(chunk)
                copy.flush()
                os.fchmod(copy.fileno(), 0o444)
                blob = Blob(digest.hexdigest(), size)
                os.replace(copy.name, self.path(blob))  # noqa: PTH105
                return blob
            finally:
                Path(copy.name).unlink(missing_ok=True)


_PROGRESS_SECS = 2.0
_LARGE = 100 << 20
# `main.8f3c21ab.js` of webpack and Parcel, `main.min.<SHA-256>.css` of Hugo, `index-C9x1TfQ2.js` of Vite and
# Rollup, `chunk-5KJ2QX7A.js` of esbuild, `logo.CgT1UAgQ_Z1bHT6.webp` of Astro. Bundlers name no documents so.
_FINGERPRINT = re.compile(
    r"(?P<stem>(?:.*[.\-_/])?(?P<hex>[0-9a-f]{8,128})|(?:.*[.\-/])?(?P<mixed>[\w-]{8})(?:_[A-Za-z0-9]{5,8})?)"
    r"(?:\.[a-z]+)?\.(?:(?P<code>m?js(?:\.map)?|css(?:\.map)?|wasm)"
    r"|avif|gif|ico|jpe?g|png|svg|webp|eot|otf|ttf|woff2?|mp[34]|ogg|webm)",
    re.ASCII,
)
_HEX_LENGTHS = frozenset({8, 10, 16, 20, 32, 40, 64, 96, 128})
_BUNDLER_FOLDER = re.compile(r"(?:^|/)(?:assets|media|_astro|_nuxt|_app/immutable|_next/static)/")
_CLASS_CHANGE = re.compile(
    r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[a-z])"
)
_NOT_A_HASH = re.compile(r"[A-Z][a-z]{3}|[0-9]{3}|^[^0-9]*$|^[^A-Z]*$")


@dataclass(frozen=True, slots=True)
class Packing:
    """Settings of packing: qualities `brotli` (1 to 11) and `gzip` (1 to 9), and `workers` that compress.

    `verify` compares the digests of cached files, not only their sizes. `sources` is the project folder if a
    build command wrote the files.
    """

    cache: Path
    brotli: int
    gzip: int
    workers: Executor
    report: Callable[[str], None]
    _: KW_ONLY
    verify: bool
    sources: Path | None = None


async def pack(root: Path, packing: Packing) -> StaticBundle:
    """Pack the files below `root`; equal files and qualities make equal bundles.

    Raises `BuildFailed` if a file cannot be read or vanishes meanwhile, or the cache cannot be written.
    """
    try:
        return await _pack(root, packing)
    except OSError as error:
        raise BuildFailed(
            f"{error.filename or root} cannot be packed: {error.strerror or error}",
            "Check that it can be read, that no program writes there during the build, and that the disk "
            f"of {packing.cache} is not full; then build again.",
        ) from error


async def _pack(root: Path, packing: Packing) -> StaticBundle:
    paths, notes = await asyncio.to_thread(walk, root)
    for note in notes:
        packing.report(note)
    sizes = await asyncio.to_thread(lambda: {name: path.stat().st_size for name, path in paths.items()})
    for name in [name for name, size in sizes.items() if size > _LARGE]:
        packing.report(f"{name} has {sizes[name] >> 20} MiB: files of that size make builds and deploys slow")
    store = await asyncio.to_thread(BlobStore, packing.cache / "static", verify=packing.verify)
    hashed = await asyncio.to_thread(_fingerprinted, paths, root, packing.sources)
    loop = asyncio.get_running_loop()
    jobs = {
        loop.run_in_executor(packing.workers, _image_file, store, name, path, packing, name in hashed): name
        for name, path in paths.items()
    }
    pending, pause = set(jobs), _PROGRESS_SECS
    try:
        while pending:
            done, pending = await asyncio.wait(pending, timeout=pause, return_when=asyncio.FIRST_EXCEPTION)
            failures = [failure for job in done if (failure := job.exception())]
            if failures:
                raise failures[0]
            if pending:
                pause *= 2
                size, name = max((sizes[jobs[job]], jobs[job]) for job in pending)
                done_now = f"{len(jobs) - len(pending)} of {len(jobs)} done"
                size_now = f", {size >> 20} MiB" if size >> 20 else ""
                packing.report(f"compressing files: {done_now}; largest to do: {name}{size_now} …")
    finally:
        for job in pending:
            job.cancel()
    files = [job.result() for job in jobs]
    return await asyncio.to_thread(_assemble, files, store, packing)


def fingerprint_stem(name: str) -> str:
    """Return a path up to the end of the content hash in its name, or "" if bundlers do not write such names.

    A false positive stays in browser caches for a year; a false negative costs a revalidation.
    """
    match = _FINGERPRINT.fullmatch(name)
    if match is None:
        return ""
    if (digits := match["hex"]) is not None:
        hashed = len(digits) in _HEX_LENGTHS and len(_CLASS_CHANGE.findall(digits)) >= 2
    else:
        hashed = not _NOT_A_HASH.search(match["mixed"]) and len(_CLASS_CHANGE.findall(match["mixed"])) >= 3
        hashed = hashed and (match["code"] is not None or _BUNDLER_FOLDER.search(name) is not None)
    return match["stem"] if hashed else ""


def _fingerprinted(names: Collection[str], output: Path, sources: Path | None) -> frozenset[str]:
    """Return the files that a bundler named by their content: the sources have no file of that name."""
    stems = {name: stem.rpartition("/")[2] for name in names if sources and (stem := fingerprint_stem(name))}
    known: set[str] = set()
    if stems and sources:
        sources, output = sources.resolve(), output.resolve()
        ignored = IgnoreRules(sources).folder
        for folder, folders, files in os.walk(sources):
            here = Path(folder)
            folders[:] = [each for each in folders if here / each != output and not ignored(here / each)]
            for file in files:
                parts = file.split(".")
                known.update(".".join(parts[:end]) for end in range(1, len(parts)))
    return frozenset(name for name, stem in stems.items() if stem not in known)


def _image_file(store: BlobStore, name: str, path: Path, packing: Packing, hashed: bool) -> BundleFile:
    blob = store.add(path)
    encodings: dict[str, tuple[str, int]] = {"identity": blob}
    if compressible(name):
        for coding, quality in (("br", packing.brotli), ("gzip", packing.gzip)):
            compressed = store.compressed(blob, coding, quality)
            if compressed is not None:
                encodings[coding] = compressed
    return BundleFile(name, content_type(name), encodings, hashed)


def _assemble(files: list[BundleFile], store: BlobStore, packing: Packing) -> StaticBundle:
    """Move index and blobs to their final folder by a rename, unless a complete bundle exists there."""
    index, images, verify = encode_index(files), packing.cache / "images", packing.verify
    blobs = {Blob(*encoding) for file in files for encoding in file.encodings.values()}
    image = StaticBundle(images / index_digest(index), index_digest(index))
    if _complete(image.folder, index, blobs, verify=verify):
        return image
    images.mkdir(parents=True, exist_ok=True)
    with temporary_folder("new-", images) as temporary:
        new = temporary / "image"
        (new / BLOBS).mkdir(parents=True)
        for blob in blobs:
            link_or_copy(store.path(blob), blob_path(new, blob.sha256))
        (new / INDEX).write_bytes(index)
        _install(new, image.folder, index, blobs, verify=verify)
    return image


def _install(new: Path, folder: Path, index: bytes, blobs: set[Blob], *, verify: bool) -> None:
    try:
        new.rename(folder)
        return
    except OSError:
        # Another process was faster, or the existing bundle is incomplete.
        if _complete(folder, index, blobs, verify=verify):
            return
    os.replace(folder, new.with_name("replaced"))  # noqa: PTH105
    new.rename(folder)


def _complete(folder: Path, index: bytes, blobs: set[Blob], *, verify: bool) -> bool:
    try:
        return (folder / INDEX).read_bytes() == index and has_blobs(folder, blobs, verify=verify)
    except OSError:
        return False
