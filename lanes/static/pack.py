"""Packing of an output folder into a static bundle in the cache."""

import asyncio
import os
import re
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from engine.artifact import BundleFile, StaticBundle
from engine.build.ignore import IgnoreRules
from engine.files.temporary import temporary_folder
from engine.lane import BuildFailed
from engine.static_files.bundle import BLOBS, INDEX, blob_path, encode_index, has_blobs, index_digest
from engine.static_files.content_type import compressible, content_type
from lanes.static.blobs import Blob, BlobStore, place_blob
from lanes.static.walk import walk

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
    content = await asyncio.to_thread(walk, root)
    for note in content.notes:
        packing.report(note)
    sizes = await asyncio.to_thread(
        lambda: {name: path.stat().st_size for name, path in content.files.items()}
    )
    for name in [name for name, size in sizes.items() if size > _LARGE]:
        packing.report(f"{name} has {sizes[name] >> 20} MiB: files of that size make builds and deploys slow")
    store = await asyncio.to_thread(BlobStore, packing.cache / "static", verify=packing.verify)
    hashed = await asyncio.to_thread(_fingerprinted, content.files, root, packing.sources)
    loop = asyncio.get_running_loop()
    jobs = {
        loop.run_in_executor(packing.workers, _image_file, store, name, path, packing, name in hashed): name
        for name, path in content.files.items()
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
                packing.report(f"compressing files: {done_now}; largest to do: {name}, {size >> 20} MiB …")
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
    encodings = {"identity": (blob.sha256, blob.size)}
    if compressible(name):
        for coding, quality in (("br", packing.brotli), ("gzip", packing.gzip)):
            compressed = store.compressed(blob, coding, quality)
            if compressed is not None:
                encodings[coding] = (compressed.sha256, compressed.size)
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
            place_blob(store.path(blob), blob_path(new, blob.sha256))
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
        return (folder / INDEX).read_bytes() == index and has_blobs(
            folder, ((blob.sha256, blob.size) for blob in blobs), verify=verify
        )
    except OSError:
        return False
