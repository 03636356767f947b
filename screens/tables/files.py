"""Files that tables come from and go to: formats, paths as people write them, bytes. Pure."""

import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from svc_tui import kept_file
from svc_tui.client import SvcError

FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".sql": "sql",
    ".db": "db",
    ".sqlite": "db",
    ".sqlite3": "db",
}
WHOLE = frozenset({"sql", "db"})
"""Formats whose files bring tables of their own."""
PIECE = 1 << 18
LOOKED_AT = 4 << 20
"""Bytes at the beginning of a file that are looked at for a preview."""
MOST_BLOB = 20 << 20
"""Bytes of a file that becomes a cell: all changes together have 32 MiB, as base64."""
BAR = 24
"""Cells of a bar of progress."""

Tell = Callable[[int, int], None]
"""Hears how many bytes are done, and of how many; 0 where that is not known."""


class Stopped(SvcError):
    """Somebody broke it off."""


def format_of(path: str) -> str:
    """Return the format that the ending of a file's name stands for. Raises `SvcError`."""
    found = FORMATS.get(Path(path).suffix.lower())
    if found is None:
        raise SvcError(
            f"what is in {path} can not be told by its name", f"Names end in {', '.join(FORMATS)}."
        )
    return found


def place(text: str) -> Path:
    """Return the path that is written, `~` being one's own folder."""
    return Path(text.strip()).expanduser()


def completed(text: str) -> str:
    """Return a path with what all files that begin so have in common; a folder ends in a slash."""
    head, _, last = text.rpartition("/")
    folder = place(f"{head}/" if head or text.startswith("/") else ".")
    try:
        names = [each.name for each in os.scandir(folder) if each.name.startswith(last)]
    except OSError:
        return text
    names = [name for name in names if last or not name.startswith(".")]
    common = _common(names)
    if len(common) < len(last):
        return text
    whole = f"{head}/{common}" if "/" in text else common
    return f"{whole}/" if len(names) == 1 and (folder / common).is_dir() else whole


def _common(names: Sequence[str]) -> str:
    """Return what all names begin with."""
    first, last = min(names, default=""), max(names, default="")
    same = (index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(same, min(len(first), len(last)))]


def beginning(path: Path, format: str) -> tuple[bytes, bool]:
    """Return the bytes that a preview is made of, and whether they are the whole file. Raises `SvcError`.

    Of a longer file it is its first lines, as far as the format has lines; else nothing.
    """
    with _reading(path), path.open("rb") as file:
        found = file.read(LOOKED_AT + 1)
    if len(found) <= LOOKED_AT:
        return found, True
    return (found[: found.rfind(b"\n") + 1], False) if format in ("csv", "jsonl") else (b"", False)


def blob_of(path: Path) -> dict[str, str]:
    """Return a file as the cell of a blob. Raises `SvcError`."""
    with _reading(path), path.open("rb") as file:
        found = file.read(MOST_BLOB + 1)
    if len(found) > MOST_BLOB:
        raise SvcError(f"{path} has more than {size(MOST_BLOB)}", "A cell that is edited takes no more.")
    return {"base64": b64encode(found).decode()}


def pieces(path: Path, tell: Tell, stopped: threading.Event) -> Iterator[bytes]:
    """Yield a file, piece by piece. Raises `SvcError`."""
    with _reading(path), path.open("rb") as file:
        total, sent = os.fstat(file.fileno()).st_size, 0
        while piece := file.read(PIECE):
            _go_on(stopped, "nothing was imported")
            yield piece
            sent += len(piece)
            tell(sent, total)


def keep(path: Path, pieces: Iterator[bytes], tell: Tell, stopped: threading.Event) -> int:
    """Write a file that is there whole in the end, or as it was; return its size. Raises `SvcError`."""
    if path.exists() and not path.is_file():
        raise SvcError(f"{path} is no file", "Choose a name for one, or one that may be replaced.")

    def told() -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            _go_on(stopped, "nothing was written")
            yield piece
            size += len(piece)
            tell(size, 0)

    return kept_file.keep(path, told())


def size(count: int) -> str:
    """Return a number of bytes for people."""
    if count >> 20:
        return f"{count / (1 << 20):,.1f} MiB"
    return f"{count / 1024:.1f} KiB" if count >> 10 else f"{count} B"


def bar(done: int, total: int) -> str:
    """Return how far something is: a bar and per cent."""
    share = min(done / total, 1.0) if total else 0.0
    full = int(share * BAR)
    return f"{'━' * full}{'╌' * (BAR - full)} {share:4.0%}"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SvcError(
            f"{path} can not be read: {error.strerror}", "Check its name and who may read it."
        ) from error


def _go_on(stopped: threading.Event, so: str) -> None:
    if stopped.is_set():
        raise Stopped(f"broken off; {so}", code="interrupted")
