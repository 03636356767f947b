"""Which look the Console had last, in a file of the user's own folder."""

from contextlib import suppress
from pathlib import Path

from engine import whole_file

NAME = "theme"


class Look:
    """The name of a theme; a file that can not be read or written is left alone."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder; it need not be there yet."""
        self._file = root / NAME

    def read(self) -> str:
        """Return the name; empty where none was chosen."""
        try:
            return self._file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return ""

    def write(self, name: str) -> None:
        """Keep this name."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            whole_file.write(self._file, f"{name}\n".encode())
