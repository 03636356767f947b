"""Files that people name: their paths as they are written, completed and kept, and sizes in words. Pure."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from svc_tui import atomic_export
from svc_tui.client import SvcError

BAR_CELLS = 24
"""Cells of a bar of progress."""

OnBytes = Callable[[int, int], None]
"""Hears how many bytes are done, and of how many; 0 where that is not known."""


class Interrupted(SvcError):
    """Somebody broke it off."""


def parse_path(text: str) -> Path:
    """Return the path that is written, `~` being one's own folder."""
    return Path(text.strip()).expanduser()


def complete_path(text: str) -> str:
    """Return a path with what all files that begin so have in common; a folder ends in a slash."""
    head, _, last = text.rpartition("/")
    folder = parse_path(f"{head}/" if head or text.startswith("/") else ".")
    try:
        names = [each.name for each in os.scandir(folder) if each.name.startswith(last)]
    except OSError:
        return text
    names = [name for name in names if last or not name.startswith(".")]
    common = _common_prefix(names)
    if len(common) < len(last):
        return text
    whole = f"{head}/{common}" if "/" in text else common
    return f"{whole}/" if len(names) == 1 and (folder / common).is_dir() else whole


def _common_prefix(names: Sequence[str]) -> str:
    """Return what all names begin with."""
    first, last = min(names, default=""), max(names, default="")
    same = (index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, min(len(first), len(last)))]


def write_file(path: Path, pieces: Iterator[bytes], tell: OnBytes, stopped: threading.Event) -> int:
    """Write a file that is there whole in the end, or as it was; return its size. Raises `SvcError`."""
    if path.exists() and not path.is_file():
        raise SvcError(f"{path} is no file", "Choose a name for one, or one that may be replaced.")

    def told() -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            raise_if_stopped(stopped, "nothing was written")
            yield piece
            size += len(piece)
            tell(size, 0)

    return atomic_export.write_export(path, told())


def format_size(count: int) -> str:
    """Return a number of bytes for people."""
    if count >> 20:
        return f"{count / (1 << 20):,.1f} MiB"
    return f"{count / 1024:.1f} KiB" if count >> 10 else f"{count} B"


def progress_bar(done: int, total: int) -> str:
    """Return how far something is: a bar and per cent."""
    share = min(done / total, 1.0) if total else 0.0
    full = int(share * BAR_CELLS)
    return f"{'━' * full}{'╌' * (BAR_CELLS - full)} {share:4.0%}"


def raise_if_stopped(stopped: threading.Event, so: str) -> None:
    """Raise `Stopped` once somebody breaks it off; `so` is what became of it."""
    if stopped.is_set():
        raise Interrupted(f"broken off; {so}", code="interrupted")
