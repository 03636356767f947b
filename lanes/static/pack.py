"""Packing of an output folder into a static bundle in the cache."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from engine.artifact import BundleFile, StaticBundle
from engine.lane import BuildFailed
from engine.static_files.bundle import BLOBS, INDEX, blob_path, encode_index, has_blobs, index_digest
from engine.static_files.content_type import compressible, content_type
from lanes.static.blobs import Blob, BlobStore, place_blob
from lanes.static.walk import walk

_PROGRESS_SECS = 2.0


@dataclass(frozen=True, slots=True)
class Packing:
    """Settings of packing: qualities `brotli` (1 to 11) and `gzip` (1 to 9), and `workers` that compress.

    `verify` compares the digests of cached files, not only their sizes.
    """

    cache: Path
    brotli: int
    gzip: int
    workers: Executor
    report: Callable[[str], None]
    _: KW_ONLY
    verify: bool


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
    store = await asyncio.to_thread(BlobStore, packing.cache / "static", verify=packing.verify)
    loop = asyncio.get_running_loop()
    jobs = {
        loop.run_in_executor(packing.workers, _image_file, store, name, path, packing)
        for name, path in content.files.items()
    }
    pending = set(jobs)
    try:
        while pending:
            done, pending = await asyncio.wait(
                pending, timeout=_PROGRESS_SECS, return_when=asyncio.FIRST_EXCEPTION
            )
            failures = [failure for job in done if (failure := job.exception())]
            if failures:
                raise failures[0]
            if pending:
                packing.report(f"compressing files: {len(jobs) - len(pending)} of {len(jobs)} done …")
    finally:
        for job in pending:
            job.cancel()
    files = [job.result() for job in jobs]
    return await asyncio.to_thread(_assemble, files, store, packing)


def _image_file(store: BlobStore, name: str, path: Path, packing: Packing) -> BundleFile:
    blob = store.add(path)
    encodings = {"identity": (blob.sha256, blob.size)}
    if compressible(name):
        for coding, quality in (("br", packing.brotli), ("gzip", packing.gzip)):
            compressed = store.compressed(blob, coding, quality)
            if compressed is not None:
                encodings[coding] = (compressed.sha256, compressed.size)
    return BundleFile(name, content_type(name), encodings)


def _assemble(files: list[BundleFile], store: BlobStore, packing: Packing) -> StaticBundle:
    """Move index and blobs to their final folder by a rename, unless a complete bundle exists there."""
    index, images, verify = encode_index(files), packing.cache / "images", packing.verify
    blobs = {Blob(*encoding) for file in files for encoding in file.encodings.values()}
    image = StaticBundle(images / index_digest(index), index_digest(index))
    if _complete(image.folder, index, blobs, verify=verify):
        return image
    images.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=images, prefix="new-"))
    try:
        (temporary / BLOBS).mkdir()
        for blob in blobs:
            place_blob(store.path(blob), blob_path(temporary, blob.sha256))
        (temporary / INDEX).write_bytes(index)
        temporary.chmod(0o755)
        _install(temporary, image.folder, index, blobs, verify=verify)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return image


def _install(new: Path, folder: Path, index: bytes, blobs: set[Blob], *, verify: bool) -> None:
    try:
        new.rename(folder)
        return
    except OSError:
        # Another process was faster, or the existing bundle is incomplete.
        if _complete(folder, index, blobs, verify=verify):
            return
    discarded = Path(tempfile.mkdtemp(dir=folder.parent, prefix="old-"))
    try:
        os.replace(folder, discarded / "image")  # noqa: PTH105
        new.rename(folder)
    finally:
        shutil.rmtree(discarded, ignore_errors=True)


def _complete(folder: Path, index: bytes, blobs: set[Blob], *, verify: bool) -> bool:
    try:
        return (folder / INDEX).read_bytes() == index and has_blobs(
            folder, ((blob.sha256, blob.size) for blob in blobs), verify=verify
        )
    except OSError:
        return False
