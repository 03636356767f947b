"""Packages among a bucket's blobs, and out of them as artifacts in a local folder.

Owns what is missing of one, and unpacking: under another name, so that a folder that has a package's name is
whole. A package's document is sent last, so that one that is there is whole too; who sends is the client
(`svc_tui/deploy/client.py`). Which packages are needed is not known here (`garbage.py`).
"""

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.bucket.errors import BlobMissing
from engine.bucket.protocols import Blobs, Digest, is_digest
from engine.build.inputs import content_digest
from engine.deploy.package import COMPONENT, SCRIPT, SOURCE_MAP, Package, PackageError, decode
from engine.static_files.bundle import BLOBS, BundleCorrupt, blob_path, read_index

T = TypeVar("T")
Name = TypeVar("Name", bound=str)
MAX_CONCURRENT = 8
_REDEPLOY = "Deploy again what it belongs to."
_NEW, _GONE = ".new-", ".gone-"


async def missing(blobs: Blobs, package: Package) -> frozenset[Digest]:
    """Return which contents must be sent; the others are kept from now on for the time that garbage is."""
    digests = sorted(package.digests)
    kept = await _each(blobs.touch, digests)
    return frozenset(digest for digest, there in zip(digests, kept, strict=True) if not there)


async def load(blobs: Blobs, digest: Digest) -> Package:
    """Return a package of the bucket. Raises `BlobMissing`, `BlobDamaged` and `PackageError`."""
    return decode(await blobs.get(digest))


async def touch(blobs: Blobs, digest: Digest) -> Package:
    """Return a package all of which is there, as it is for the time that garbage is kept from now on.

    Raises as `load` does.
    """
    if not await blobs.touch(digest):
        raise BlobMissing(digest)
    package = await load(blobs, digest)
    for gone in sorted(await missing(blobs, package)):
        raise BlobMissing(gone)
    return package


async def unpack(blobs: Blobs, digest: Digest, folder: Path) -> Artifact:
    """Return the artifact of a package, in the folder of the package's name below `folder`.

    What is there already is checked, not made again, and counts as used now. Raises as `load` does, and
    `PackageError` where the disk does not do its part.
    """
    package = await load(blobs, digest)
    root = folder / digest
    try:
        with suppress(FileNotFoundError):
            os.utime(root)
        if not await asyncio.to_thread(_is_complete, package, root):
            await _unpack(blobs, package, root)
        return await asyncio.to_thread(_artifact, package, root)
    except OSError as error:
        raise PackageError(
            f"the package sha256:{digest} can not be unpacked to {root}: {error.strerror}",
            "Check that the folder can be written and that its disk has room.",
            code="unavailable",
            public_message=f"the package sha256:{digest} can not be unpacked: {error.strerror}",
        ) from error


async def _unpack(blobs: Blobs, package: Package, root: Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=root.parent, prefix=_NEW))
    try:
        (new / BLOBS).mkdir()
        await _each(lambda name: blobs.copy_to(package.files[name].digest, new / name), sorted(package.files))
        new.chmod(0o755)
        await asyncio.to_thread(_name, package, new, root)
    finally:
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)


def _name(package: Package, new: Path, root: Path) -> None:
    """Give an unpacked folder its name, unless another of the same has it by now."""
    if root.exists():
        if _is_complete(package, root):
            return
        shutil.rmtree(root)
    try:
        new.replace(root)
    except OSError:
        if not _is_complete(package, root):
            raise


def _is_complete(package: Package, root: Path) -> bool:
    try:
        return all(content_digest(root / name) == part.digest for name, part in package.files.items())
    except FileNotFoundError:
        return False


async def evict_unpacked(
    folder: Path, needed: AbstractSet[Digest], before_ns: int, *, count_only: bool = False
) -> int:
    """Remove, or only count, what was unpacked to `folder`, is not needed and was not used since a time.

    Nothing else there is touched, and no blob: where files are hard links, the blobs' names remain. Returns
    how many folders. Raises `PackageError` where the disk does not do its part.
    """
    forgotten = 0
    try:
        for path in await asyncio.to_thread(_unpacked, folder):
            if path.name in needed or not _unused(path, before_ns):
                continue
            forgotten += 1
            if count_only:
                continue
            # `unpack` marks what it uses on this thread too, so not between the look and the new name.
            gone = path if path.name.startswith(_GONE) else folder / f"{_GONE}{secrets.token_hex(8)}"
            path.rename(gone)
            await asyncio.to_thread(shutil.rmtree, gone)
    except OSError as error:
        raise PackageError(
            f"what was unpacked to {folder} can not be removed: {error.strerror}",
            "Check that the user who runs svc may write there.",
            code="unavailable",
            public_message=f"what was unpacked can not be removed: {error.strerror}",
        ) from error
    return forgotten


def _unpacked(folder: Path) -> list[Path]:
    """Return what this file made in a folder, what it left half done included."""
    try:
        return [
            path for path in folder.iterdir() if is_digest(path.name) or path.name.startswith((_NEW, _GONE))
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
    if package.kind == "image":
        return _image(package, root)
    try:
        script = (root / SCRIPT).read_bytes().decode() if SCRIPT in package.files else None
    except UnicodeDecodeError as error:
        raise PackageError("the script of a component is no text in UTF-8", _REDEPLOY) from error
    source_map = (root / SOURCE_MAP).read_bytes() if SOURCE_MAP in package.files else None
    return ComponentArtifact(root / COMPONENT, package.artifact, script, source_map)


def _image(package: Package, root: Path) -> StaticBundle:
    """Hold an index, which whoever deploys has made, to the files that came with it."""
    image = StaticBundle(root, package.artifact)
    try:
        named = {encoding for file in read_index(image) for encoding in file.encodings.values()}
    except BundleCorrupt as error:
        raise PackageError("the index of an image is none", _REDEPLOY) from error
    for digest, size in named:
        part = package.files.get(f"{BLOBS}/{digest}")
        if part is None or part.digest != digest or blob_path(root, digest).stat().st_size != size:
            raise PackageError("an image has not the files that its index names", _REDEPLOY)
    return image


async def _each(step: Callable[[Name], Awaitable[T]], names: Iterable[Name]) -> list[T]:
    """Take a step for each name, a few at once, and return what they return; the first failure ends all."""
    free = asyncio.Semaphore(MAX_CONCURRENT)

    async def one(name: Name) -> T:
        async with free:
            return await step(name)

    steps = [asyncio.ensure_future(one(name)) for name in names]
    try:
        return await asyncio.gather(*steps)
    finally:
        for taken in steps:
            taken.cancel()
        await asyncio.gather(*steps, return_exceptions=True)
