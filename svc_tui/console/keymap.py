"""The user's own keys for the Console: `keys.toml` in the user's folder of svc.

Owns that file's form: a line a binding, `"board.connect" = "c"`, several keys with commas between them.
"""

import tomllib
from collections.abc import Collection
from pathlib import Path

from engine.errors import SvcError
from engine.manifest.problems import did_you_mean

FILE = "keys.toml"


def read(home: Path, known: Collection[str]) -> dict[str, str]:
    """Return keys by the binding's id; empty without a file. Raises `SvcError` for what means nothing."""
    path = home / FILE
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
            hint = did_you_mean(name, sorted(known)) or "docs/console.md lists them."
            raise SvcError(f'{path}: there is no key named "{name}"', hint, code="usage")
        if not isinstance(keys, str) or not all(key.strip() for key in keys.split(",")):
            raise SvcError(
                f'{path}: "{name}" has no keys', 'Write them in quotes: "ctrl+n" or "j,down".', code="usage"
            )
    return found
