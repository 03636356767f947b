"""What the Console has from one time to the next: small files in a folder of its user.

A file that can not be read or written is left alone: nothing that is kept here is worth a message.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine.files import atomic

LOOK = "theme"
SQL_HISTORY = "sql-history.json"


class _Text:
    """A text in a file that only its user may read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> str:
        """Return the text; empty where there is none."""
        try:
            return self._file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def write(self, text: str) -> None:
        """Replace the text; its folder need not be there yet."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic.write(self._file, text.encode())


class Look:
    """Which theme was chosen last."""

    def __init__(self, root: Path) -> None:
        """`root` is the user's folder."""
        self._text = _Text(root / LOOK)

    def read(self) -> str:
        """Return the theme's name; empty where none was chosen."""
        return self._text.read().strip()

    def write(self, name: str) -> None:
        """Keep this name."""
        self._text.write(f"{name}\n")


class SqlHistory:
    """The statements that were run."""

    def __init__(self, root: Path) -> None:
        """`root` is the user's folder."""
        self._text = _Text(root / SQL_HISTORY)

    def read(self) -> Sequence[str]:
        """Return the statements, the latest last."""
        try:
            found = json.loads(self._text.read())
        except ValueError:
            return ()
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else ()

    def write(self, statements: Sequence[str]) -> None:
        """Keep these statements."""
        self._text.write(json.dumps(list(statements)))
