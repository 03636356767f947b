"""Files of tables: reading them, and the preview of an import. Pure."""

import os
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from screens.files import OnBytes, raise_if_stopped
from screens.widgets.columns import COLUMN_GAP, PlacedColumn, fit_cell
from screens.widgets.row_source import Cell, Line, Piece
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural, size

CHUNK_BYTES = 1 << 18
PREVIEW_BYTES = 4 << 20
"""Maximum bytes of a file that are read for its preview."""
MAX_BLOB_BYTES = 20 << 20
"""Maximum bytes of a file as a cell. It is sent as base64; all changes together have at most 32 MiB."""


def read_beginning(path: Path, format: str) -> tuple[bytes, bool]:
    """Return bytes for a preview, and whether they are the complete file. Raises `SvcError`.

    For a larger file, returns its first lines, or nothing if the format does not consist of lines.
    """
    with _reading(path), path.open("rb") as file:
        data = file.read(PREVIEW_BYTES + 1)
    if len(data) <= PREVIEW_BYTES:
        return data, True
    return (data[: data.rfind(b"\n") + 1], False) if format in ("csv", "jsonl") else (b"", False)


def read_blob(path: Path) -> dict[str, str]:
    """Return the contents of a file as a blob cell. Raises `SvcError`."""
    with _reading(path), path.open("rb") as file:
        data = file.read(MAX_BLOB_BYTES + 1)
    if len(data) > MAX_BLOB_BYTES:
        raise SvcError(f"{path} is larger than {size(MAX_BLOB_BYTES)}", "Use a smaller file.")
    return {"base64": b64encode(data).decode()}


def read_chunks(path: Path, on_bytes: OnBytes, stopped: threading.Event, outcome: str) -> Iterator[bytes]:
    """Yield a file in chunks. Raises `SvcError`; `outcome` completes its message after a stop."""
    with _reading(path), path.open("rb") as file:
        total, sent = os.fstat(file.fileno()).st_size, 0
        while chunk := file.read(CHUNK_BYTES):
            raise_if_stopped(stopped, outcome)
            yield chunk
            sent += len(chunk)
            on_bytes(sent, total)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SvcError(
            f"cannot read {path}: {error.strerror}", "Check the name and the permissions."
        ) from error


MAX_COLUMNS, MAX_ROWS = 5, 5
WIDTH = 14
"""Width of a column in cells."""


def preview_lines(
    title: str, preview: Mapping[str, Any], room: int, *, complete: bool = True
) -> Iterator[Line]:
    """Yield the lines of a preview, at most `room` cells wide.

    `preview` is the response of `POST /import/preview`. `complete` is False if it has only the first lines of
    the file.
    """
    column_count = min(MAX_COLUMNS, max((room + COLUMN_GAP) // (WIDTH + COLUMN_GAP), 1))
    columns, rows = preview["columns"][:column_count], preview["rows"][:MAX_ROWS]
    about = plural(preview["count"], "row") if complete else "first lines only"
    if more := len(preview["columns"]) - len(columns):
        about += f", {plural(more, 'more column')}"
    yield [(title, "bold"), (f"   {about}", "dim")]
    yield _line([(column["name"], "accent") for column in columns])
    yield _line(
        [(f"{column['type']} key" if column["primary_key"] else column["type"], "dim") for column in columns]
    )
    for row in rows:
        yield _line([("null", "dim") if cell is None else (cell, "") for cell in row[:column_count]])
    if (remaining := preview["count"] - len(rows)) > 0:
        yield [(f"… {remaining:,} more" if complete else "…", "dim")]


def _line(cells: Sequence[Piece]) -> Line:
    pieces: list[Piece] = []
    for piece in cells:
        cell: Cell = (piece,)
        pieces += [*fit_cell(cell, PlacedColumn(0, WIDTH, right=False)), (" " * COLUMN_GAP, "")]
    return pieces[:-1]
