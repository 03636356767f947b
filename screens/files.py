"""Files named by the user: path completion, reading, writing, previews of imports, and the editor. Pure."""

import os
import re
import shlex
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.files.temporary import temporary_folder
from screens.widgets.rows import COLUMN_GAP, Line, Piece, PlacedColumn, fit_cell
from svc_tui import atomic_export
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural, size

BAR_CELLS = 24
"""Width of the progress bar in cells."""

Chunks = Generator[bytes, None, None]
"""The content of a file; closed if it is not read to its end."""
OnBytes = Callable[[int, int], None]
"""Receives the number of bytes done and the total; the total is 0 if it is unknown."""


def parse_path(text: str) -> Path:
    """Return the path that the user typed, with `~` expanded, if it names a user of this machine."""
    path = Path(text.strip())
    with suppress(RuntimeError):
        return path.expanduser()
    return path


def complete_path(text: str) -> str:
    """Return a path completed to the common prefix of the matching files; a folder ends with a slash."""
    head, _, start = text.rpartition("/")
    folder = parse_path(f"{head}/" if head or text.startswith("/") else ".")
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(start)]
    except OSError:
        return text
    names = [name for name in names if start or not name.startswith(".")]
    common = common_prefix(names)
    if len(common) < len(start):
        return text
    completed = f"{head}/{common}" if "/" in text else common
    return f"{completed}/" if len(names) == 1 and (folder / common).is_dir() else completed


def common_prefix(names: Sequence[str]) -> str:
    """Return the longest common prefix."""
    first, last = min(names, default=""), max(names, default="")
    differing = (index for index, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, min(len(first), len(last)))]


def write_file(path: Path, chunks: Iterator[bytes], on_bytes: OnBytes, stopped: threading.Event) -> int:
    """Write a file atomically and return its size. Raises `SvcError`; the existing file is unchanged then."""
    try:
        special = path.exists() and not path.is_file()
    except OSError as error:
        raise SvcError(f"cannot write {path}: {error.strerror}", "Enter another file name.") from error
    if special:
        raise SvcError(f"{path} is not a regular file", "Enter another file name.")

    def counted() -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            raise_if_stopped(stopped, "nothing was written")
            yield chunk
            size += len(chunk)
            on_bytes(size, 0)

    return atomic_export.write_export(path, counted())


def progress_bar(done: int, total: int) -> str:
    """Return a progress bar with its percentage."""
    share = min(done / total, 1.0) if total else 0.0
    full = int(share * BAR_CELLS)
    return f"{'━' * full}{'╌' * (BAR_CELLS - full)} {share:4.0%}"


def raise_if_stopped(stopped: threading.Event, outcome: str) -> None:
    """Raise `SvcError` if the user stopped the work. `outcome` completes the message."""
    if stopped.is_set():
        raise SvcError(f"stopped; {outcome}", code="interrupted")


_GOTO_OPTION = frozenset({"code", "codium", "cursor"})
_POSITION_SUFFIX = _GOTO_OPTION | {"hx", "helix", "subl", "zed"}
"""Editors that take a line after the name of a file; others take `+LINE`."""


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """Return the command of the editor: `VISUAL`, `EDITOR`, or vi. Raises `SvcError` if it is invalid."""
    try:
        return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi") or ["vi"]
    except ValueError as error:
        raise SvcError("EDITOR has an unclosed quote", "Set it to a command, such as `code -w`.") from error


def edit_file(path: Path, line: int, command: list[str]) -> None:
    """Open a file at a line. Raises `SvcError`."""
    if Path(command[0]).stem in _POSITION_SUFFIX:
        option = ["-g"] if Path(command[0]).stem in _GOTO_OPTION else []
        _run([*command, *option, f"{path}:{line}"])
    else:
        _run([*command, f"+{line}", str(path)])


def _run(command: list[str], hint: str = "") -> None:
    try:
        process = subprocess.run(command, check=False)
    except OSError as error:
        hint = "Set EDITOR to your editor."
        raise SvcError(f"{command[0]} cannot be run: {error.strerror}", hint) from error
    if process.returncode:
        raise SvcError(f"{command[0]} failed with status {process.returncode}", hint)


def edit_text(text: str, name: str, command: list[str]) -> str | None:
    """Return the edited text, or None if it is unchanged. Raises `SvcError`.

    `name` is that of the temporary file; its suffix may select the mode of the editor.
    """
    with temporary_folder("svc-edit-") as folder:
        file = folder / name
        file.write_bytes(text.encode())
        _run([*command, str(file)], "Nothing was changed.")
        try:
            result = file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise SvcError("the edited file cannot be read as text", "Nothing was changed.") from error
        if not text.endswith("\n"):  # Editors add a final newline, in the kind of the others.
            result = re.sub(r"\r?\n\Z", "", result)
        return result if result != text else None


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
        hint = "Check the name and the permissions."
        raise SvcError(f"cannot read {path}: {error.strerror}", hint) from error


_COLUMNS, _ROWS, _WIDTH = 5, 5, 14
"""Maximum columns and rows of a preview, and the width of a column in cells."""


def preview_lines(
    title: str, preview: Mapping[str, Any], room: int, *, complete: bool = True
) -> Iterator[Line]:
    """Yield the lines of a preview, at most `room` cells wide.

    `preview` is the response of `POST /import/preview`. `complete` is False if it has only the first lines of
    the file.
    """
    column_count = min(_COLUMNS, max((room + COLUMN_GAP) // (_WIDTH + COLUMN_GAP), 1))
    columns, rows = preview["columns"][:column_count], preview["rows"][:_ROWS]
    about = plural(preview["count"], "row") if complete else "first lines only"
    if more := len(preview["columns"]) - len(columns):
        about += f", {plural(more, 'more column')}"
    yield [(title, "bold"), (f"   {about}", "dim")]
    yield _line([(column["name"], "accent") for column in columns])
    keys = (" key" if column["primary_key"] else "" for column in columns)
    yield _line([(f"{column['type']}{key}", "dim") for column, key in zip(columns, keys, strict=True)])
    for row in rows:
        yield _line([("null", "dim") if cell is None else (cell, "") for cell in row[:column_count]])
    if (remaining := preview["count"] - len(rows)) > 0:
        yield [(f"… {remaining:,} more" if complete else "…", "dim")]


def _line(cells: Sequence[Piece]) -> Line:
    pieces: list[Piece] = []
    for piece in cells:
        pieces += [*fit_cell((piece,), PlacedColumn(0, _WIDTH, right=False)), (" " * COLUMN_GAP, "")]
    return pieces[:-1]
