"""What the Console has from one time to the next: small files in a folder of its user.

A file that can not be read or written is left alone: nothing that is kept here is worth a message.
"""

import json
import tomllib
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.manifest.problems import did_you_mean

KEYMAP_FILE = "keys.toml"
THEME_FILE = "theme"
SQL_HISTORY_FILE = "sql-history.json"


class _TextFile:
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
            write_atomic(self._file, text.encode())


class ThemePreference:
    """Which theme was chosen last."""

    def __init__(self, root: Path) -> None:
        """`root` is the user's folder."""
        self._text = _TextFile(root / THEME_FILE)

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
        self._text = _TextFile(root / SQL_HISTORY_FILE)

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


def read_keymap(home: Path, known: Collection[str]) -> dict[str, str]:
    """Return keys by the binding's id; empty without a file. Raises `SvcError` for what means nothing."""
    path = home / KEYMAP_FILE
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SvcError(f"{path} can not be read: {error.strerror}", "Check who owns it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SvcError(f"{path} is no TOML: {error}", 'A line a key: "board.connect" = "c"') from error
    for name, keys in found.items():
        if name not in known:
            hint = did_you_mean(name, sorted(known)) or "Press ? in the Console to list the keys."
            raise SvcError(f'{path}: there is no key named "{name}"', hint, code="usage")
        if not isinstance(keys, str) or not all(key.strip() for key in keys.split(",")):
            raise SvcError(
                f'{path}: "{name}" has no keys', 'Write them in quotes: "ctrl+n" or "j,down".', code="usage"
            )
    return found
