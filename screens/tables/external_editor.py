"""A text in the user's own editor, as a file that is gone afterwards. Pure."""

import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from svc_tui.client import SvcError
from svc_tui.column_types import TypeInfo


def command_of(environ: Mapping[str, str]) -> list[str]:
    """Return the command of the editor: `VISUAL`, `EDITOR`, or vi. Raises `SvcError` for an open quote."""
    try:
        return shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi") or ["vi"]
    except ValueError as error:
        raise SvcError("EDITOR has an open quote", "Write it as a command and its words.") from error


def edited(text: str, type: TypeInfo, command: list[str]) -> str | None:
    """Return the text as the editor left it, None where it did not change it. Raises `SvcError`."""
    with tempfile.TemporaryDirectory(prefix="svc-") as folder:
        file = Path(folder) / f"cell{'.json' if type.form == 'document' else '.txt'}"
        file.write_bytes(text.encode())
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError as error:
            raise SvcError(
                f"{command[0]} cannot be run: {error.strerror}", "Have EDITOR name your editor."
            ) from error
        if done.returncode:
            raise SvcError(f"{command[0]} ended with {done.returncode}", "The cell stays as it was.")
        try:
            found = file.read_bytes().decode()
        except (OSError, ValueError) as error:
            raise SvcError("the edited file is not text", "The cell stays as it was.") from error
        found = found if text.endswith("\n") else found.removesuffix("\n")  # which editors add
        return found if found != text else None
