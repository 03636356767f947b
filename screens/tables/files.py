"""Files that tables come from and go to: their formats and their bytes. Pure."""

import os
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from screens.files import OnBytes, raise_if_stopped
from svc_tui.client import SvcError
from svc_tui.terminal.units import size

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
DATABASE_FORMATS = frozenset({"sql", "db"})
"""Formats whose files bring tables of their own."""
PIECE = 1 << 18
PREVIEW_BYTES = 4 << 20
"""Bytes at the beginning of a file that are looked at for a preview."""
MAX_BLOB_BYTES = 20 << 20
"""Bytes of a file that becomes a cell: all changes together have 32 MiB, as base64."""


def format_of(path: str) -> str:
    """Return the format that the ending of a file's name stands for. Raises `SvcError`."""
    found = FORMATS.get(Path(path).suffix.lower())
    if found is None:
        raise SvcError(f"cannot determine the format of {path}", f"Names end in {', '.join(FORMATS)}.")
    return found


def beginning(path: Path, format: str) -> tuple[bytes, bool]:
    """Return the bytes that a preview is made of, and whether they are the whole file. Raises `SvcError`.

    Of a longer file it is its first lines, as far as the format has lines; else nothing.
    """
    with _reading(path), path.open("rb") as file:
        found = file.read(PREVIEW_BYTES + 1)
    if len(found) <= PREVIEW_BYTES:
        return found, True
    return (found[: found.rfind(b"\n") + 1], False) if format in ("csv", "jsonl") else (b"", False)


def blob_of(path: Path) -> dict[str, str]:
    """Return a file as the cell of a blob. Raises `SvcError`."""
    with _reading(path), path.open("rb") as file:
        found = file.read(MAX_BLOB_BYTES + 1)
    if len(found) > MAX_BLOB_BYTES:
        raise SvcError(f"{path} has more than {size(MAX_BLOB_BYTES)}", "A cell that is edited takes no more.")
    return {"base64": b64encode(found).decode()}


def pieces(path: Path, tell: OnBytes, stopped: threading.Event) -> Iterator[bytes]:
    """Yield a file, piece by piece. Raises `SvcError`."""
    with _reading(path), path.open("rb") as file:
        total, sent = os.fstat(file.fileno()).st_size, 0
        while piece := file.read(PIECE):
            raise_if_stopped(stopped, "nothing was imported")
            yield piece
            sent += len(piece)
            tell(sent, total)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SvcError(
            f"cannot read {path}: {error.strerror}", "Check the name and the permissions."
        ) from error
