"""Files of initial memories, beside the machine code of components whose code is shared.

The first component with some machine code leaves its whole memory as the base of all. A file of each
component has the ranges of pages in which its memory differs, compressed as their difference from the same
ranges of the base, and then how they are used. Files end with a digest (`sealed.py`).
"""

import errno
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from engine.files.compressed import FrameCorrupt, compress, decompress
from engine.files.sealed import SEAL_BYTES, is_sealed, write_sealed
from engine.wasm.binary.memory_image import SplitComponent

MAX_RANGES = 32
"""Maximum ranges of pages that differ: each is a mapping of its own in every memory."""
_END = struct.Struct("<Q")
"""The end of a file before its seal: the address of a base, or the size of the document of a component."""
_TAIL_BYTES = 4096
"""More than the document of a component and what follows it."""
_PAGE = mmap.PAGESIZE


class Layer(NamedTuple):
    """A part of a content, `size` bytes from `position`, and its place in a memory image."""

    position: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class MemoryImage:
    """The initial content of a memory of `minimum` bytes: `length` bytes at `start`.

    It is the layer `below` of the file `base`, which other components use, too, and above it the layers `own`
    of `own_pages`. `code` is the file of the machine code that uses it, in their folder. `limits` are the
    `declared_limits` of the component.
    """

    path: Path
    start: int
    length: int
    minimum: int
    code: Path
    _: KW_ONLY
    base: Path
    below: Layer
    own: tuple[Layer, ...] = ()
    limits: tuple[int | None, ...] = ()


def image_file(target: Path) -> Path:
    """Return the file of the initial memory of a component whose own machine code would be `target`."""
    return target.with_suffix(".pages")


def code_file(target: Path, digest: bytes) -> Path:
    """Return the file of the machine code that components share; `digest` is the sha256 of their code."""
    return target.with_name(f"code-{digest.hex()}-{target.stem.partition('-')[2]}.cwasm")


def write_image(target: Path, split: SplitComponent, limits: Sequence[int | None]) -> None:
    """Write the initial memory of a component, and the base unless there is one. Raises OSError."""
    digest = hashlib.sha256(split.code).digest()
    base, base_start, base_image = _base(code_file(target, digest), split)
    start = min(split.start, base_start)
    end = max(split.start + len(split.image), base_start + len(base_image))
    image = bytes(split.start - start) + split.image + bytes(end - split.start - len(split.image))
    ranges = _ranges(image, base_start - start, base_image)
    document = {
        "start": start,
        "length": len(image),
        "minimum": split.minimum,
        "code": digest.hex(),
        "base": [base.name, base_start - start, len(base_image)],
        "ranges": ranges,
        "limits": limits,
    }
    encoded = json.dumps(document).encode()
    own = b"".join([image[at : at + size] for at, size in ranges])
    beneath = [_beneath(at - (base_start - start), size, len(base_image)) for at, size in ranges]
    frame = compress(own, b"".join([base_image[begin:end] for begin, end in beneath])) if own else b""
    write_sealed(image_file(target), frame, encoded, _END.pack(len(encoded)))


def own_pages(image: MemoryImage) -> bytes:
    """Return the content of the layers `own`. Raises OSError if it cannot be read or is corrupt."""
    if not image.own:
        return b""
    content = image.path.read_bytes()[:-SEAL_BYTES]
    (size,) = _END.unpack(content[-_END.size :])
    length, below = sum(layer.size for layer in image.own), image.below
    with image.base.open("rb", buffering=0) as base:
        ranges = [_beneath(layer.offset - below.offset, layer.size, below.size) for layer in image.own]
        template = [os.pread(base.fileno(), end - begin, begin) for begin, end in ranges]
    try:
        pages = decompress(content[: -_END.size - size], b"".join(template), limit=length)
    except FrameCorrupt as error:
        raise OSError(errno.EIO, str(error)) from error
    if len(pages) != length:
        raise OSError(errno.EIO, "incomplete")
    return pages


def _beneath(at: int, size: int, length: int) -> tuple[int, int]:
    """Return begin and end of the part of a range that is in a base of `length` bytes."""
    return min(max(at, 0), length), min(max(at + size, 0), length)


def _base(code: Path, split: SplitComponent) -> tuple[Path, int, bytes]:
    """Return the file, the address and the content of the base for some machine code.

    Its name has its digest: files of components would be wrong beside another base.
    """
    for path in code.parent.glob(f"{code.stem}-*.memory"):
        if is_sealed(path):
            content = path.read_bytes()[:-SEAL_BYTES]
            return path, _END.unpack(content[-_END.size :])[0], content[: -_END.size]
    end = _END.pack(split.start)
    digest = hashlib.sha256(split.image + end).hexdigest()
    path = code.with_name(f"{code.stem}-{digest}.memory")
    write_sealed(path, split.image, end)
    return path, split.start, split.image


def _ranges(image: bytes, base_offset: int, base: bytes) -> list[tuple[int, int]]:
    """Return offset and size of at most `MAX_RANGES` ranges that cover all pages that differ from a base."""
    view, below = memoryview(image), memoryview(base)
    pages = [
        at
        for at in range(0, len(image), _PAGE)
        if not 0 <= at - base_offset < len(base)
        or view[at : at + _PAGE] != below[at - base_offset : at - base_offset + _PAGE]
    ]
    gaps = sorted(pairwise(pages), key=lambda pair: pair[0] - pair[1])
    cuts = sorted(pair for pair in gaps[: MAX_RANGES - 1] if pair[1] - pair[0] > _PAGE)
    begins = [*pages[:1], *(after for _, after in cuts)]
    ends = [*(before for before, _ in cuts), *pages[-1:]]
    return [(begin, end + _PAGE - begin) for begin, end in zip(begins, ends, strict=True)]


def find_code(target: Path, is_usable: Callable[[Path], bool]) -> tuple[Path, MemoryImage | None] | None:
    """Return the machine code of a component, and its initial memory if that is separate, if all is usable.

    Raises OSError if a file cannot be read.
    """
    if is_usable(target):
        return target, None
    image = read_image(image_file(target)) if is_usable(image_file(target)) else None
    if image is None or not (is_usable(image.code) and is_usable(image.base)):
        return None
    return image.code, image


def read_image(path: Path) -> MemoryImage | None:
    """Return a file of `write_image`, or `None` if it does not exist. Raises OSError if it cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            content = file.read()[:-SEAL_BYTES]
        (size,) = _END.unpack(content[-_END.size :])
        return _decode(path, json.loads(content[-_END.size - size : -_END.size]))
    except (FileNotFoundError, struct.error, ValueError, KeyError, TypeError):
        return None


def _decode(path: Path, document: Any) -> MemoryImage:
    start, length, minimum = (document[key] for key in ("start", "length", "minimum"))
    code = code_file(path, bytes.fromhex(document["code"]))
    name, offset, size = document["base"]
    base, below = path.with_name(name), Layer(0, offset, size)
    positions = accumulate((size for _, size in document["ranges"]), initial=0)
    own = tuple(Layer(position, *page) for position, page in zip(positions, document["ranges"], strict=False))
    limits = tuple(document["limits"])
    return MemoryImage(path, start, length, minimum, code, base=base, below=below, own=own, limits=limits)
