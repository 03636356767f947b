"""Editing a text in the user's editor, as a temporary file. Pure."""

import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from svc_tui.client import SvcError
from svc_tui.column_types import TypeInfo


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """Return the command of the editor: `VISUAL`, `EDITOR`, or vi. Raises `SvcError` if it is invalid."""
    try:
        return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi") or ["vi"]
    except ValueError as error:
        raise SvcError("EDITOR has an unclosed quote", "Set it to a command, such as `code -w`.") from error


def edit_text(text: str, type: TypeInfo, command: list[str]) -> str | None:
    """Return the edited text, or None if it is unchanged. Raises `SvcError`."""
    with tempfile.TemporaryDirectory(prefix="svc-") as folder:
        file = Path(folder) / f"cell{'.json' if type.form == 'document' else '.txt'}"
        file.write_bytes(text.encode())
        try:
            process = subprocess.run([*command, str(file)], check=False)
        except OSError as error:
            raise SvcError(
                f"{command[0]} cannot be run: {error.strerror}", "Set EDITOR to your editor."
            ) from error
        if process.returncode:
            raise SvcError(f"{command[0]} failed with status {process.returncode}", "The cell is unchanged.")
        try:
            result = file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise SvcError("the edited file cannot be read as text", "The cell is unchanged.") from error
        result = result if text.endswith("\n") else result.removesuffix("\n")  # Editors add a final newline.
        return result if result != text else None
