"""The statements that were run in the Console, in a file that only its user may read."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine import whole_file

NAME = "sql-history.json"


class SqlHistory:
    """A file in the user's own folder; one that can not be read or written is left alone."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder; it need not be there yet."""
        self._file = root / NAME

    def read(self) -> Sequence[str]:
        """Return the statements, the latest last."""
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else ()

    def write(self, statements: Sequence[str]) -> None:
        """Keep these statements."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            whole_file.write(self._file, json.dumps(list(statements)).encode())
