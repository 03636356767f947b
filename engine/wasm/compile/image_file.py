"""Files of initial memories, beside the machine code of components whose code is shared.

A file has the memory, in whole pages, and then how it is used. It ends with a digest (`sealed.py`).
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from engine.files.sealed import SEAL_BYTES, write_sealed
from engine.wasm.binary.memory_image import SplitComponent

_TRAILER = Struct("<QQQ32s")


@dataclass(frozen=True, slots=True)
class MemoryImage:
    """The initial content of a memory of `minimum` bytes: a file's first `length` bytes, at `start`.

    `code` is the file of the machine code that uses it, in the same folder.
    """

    path: Path
    start: int
    length: int
    minimum: int
    code: Path


def image_file(target: Path) -> Path:
    """Return the file of the initial memory of a component whose own machine code would be `target`."""
    return target.with_suffix(".image")


def code_file(target: Path, digest: bytes) -> Path:
    """Return the file of the machine code that components share; `digest` is the sha256 of their code."""
    return target.with_name(f"code-{digest.hex()}-{target.stem.partition('-')[2]}.cwasm")


def write_image(target: Path, split: SplitComponent) -> None:
    """Write the initial memory of a component. Raises OSError."""
    digest = hashlib.sha256(split.code).digest()
    trailer = _TRAILER.pack(split.start, len(split.image), split.minimum, digest)
    write_sealed(image_file(target), split.image, trailer)


def find_code(target: Path, is_usable: Callable[[Path], bool]) -> tuple[Path, MemoryImage | None] | None:
    """Return the machine code of a component, and its initial memory if that is separate, if all is usable.

    Raises OSError if a file cannot be read.
    """
    if is_usable(target):
        return target, None
    image = read_image(image_file(target)) if is_usable(image_file(target)) else None
    return (image.code, image) if image is not None and is_usable(image.code) else None


def read_image(path: Path) -> MemoryImage | None:
    """Return a file of `write_image`, or `None` if it does not exist. Raises OSError if it cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - SEAL_BYTES - _TRAILER.size))
            trailer = file.read(_TRAILER.size)
    except FileNotFoundError:
        return None
    if len(trailer) < _TRAILER.size:
        return None
    start, length, minimum, digest = _TRAILER.unpack(trailer)
    return MemoryImage(path, start, length, minimum, code_file(path, digest))
