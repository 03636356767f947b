"""The user's editor, for a text as a temporary file and for a position in a file. Pure."""

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from engine.files.temporary import temporary_folder
from svc_tui.client import SvcError

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
        raise SvcError(
            f"{command[0]} cannot be run: {error.strerror}", "Set EDITOR to your editor."
        ) from error
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
        result = result if text.endswith("\n") else result.removesuffix("\n")  # Editors add a final newline.
        return result if result != text else None
