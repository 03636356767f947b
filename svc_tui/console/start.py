"""Actions behind the login dialog and the start screen, and the user settings of the Console.

`keys.toml`, the theme and the SQL history are in the user's svc directory.
"""

import os
import tomllib
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from engine.errors import InvalidUsage, SvcError
from engine.files.atomic import write_atomic
from engine.manifest.problems import did_you_mean
from svc_tui.client import Client, credentials
from svc_tui.project import scaffold


class LoginActions:
    """Logs in to services. Methods raise `SvcError`."""

    def last_url(self) -> str:
        """Return the URL of the service that was used last, or "" if there is none."""
        keys = credentials.CredentialStore.from_environment(os.environ).services()
        return next((key for key in keys if "://" in key), "")

    def is_claimed(self, url: str) -> bool:
        """Return whether the service at a URL has an owner. Raises `SvcError` if SVC_TOKEN is set."""
        if os.environ.get("SVC_TOKEN"):
            hint = "Unset SVC_TOKEN and start svc again to log in."
            raise SvcError("SVC_TOKEN is set and overrides saved sessions", hint)
        with Client(_checked(url), "", credentials.TIMEOUT_SECONDS) as client:
            return credentials.is_claimed(client)

    def log_in(self, url: str, user: str, password: str, code: str | None) -> str:
        """Log in, or create the first owner with the claim code. Save the session; return its key."""
        with Client(_checked(url), "", credentials.TIMEOUT_SECONDS) as client:
            login = credentials.log_in(client, user, password, code)
        logins = credentials.CredentialStore.from_environment(os.environ)
        logins.save(login)
        if (project := credentials.current_project()) is not None:
            logins.link_project(project, login.key)
        return login.key


class StartActions:
    """Creates projects in a folder and lists deployed ones. Methods raise `SvcError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def templates(self) -> Sequence[tuple[str, str]]:
        """Return name and description of each template, the recommended one first."""
        return tuple(scaffold.TEMPLATES.items())

    def create(self, name: str, template: str) -> None:
        scaffold.create_project(self._folder / name, template)

    def deployed_projects(self) -> tuple[str, Sequence[str]]:
        """Return the key of the current service and its projects; both empty without a session."""
        try:
            login = credentials.CredentialStore.from_environment(os.environ).get()
        except credentials.NotLoggedIn:
            return "", ()
        with credentials.open_client(login) as client:
            return login.key, list(client.call("GET", "/v1/projects")["projects"])


def _checked(text: str) -> str:
    url = credentials.service_url(text)
    credentials.check_encryption(url, insecure=False)
    return url


KEYMAP_FILE = "keys.toml"
THEME_FILE = "theme"
SQL_HISTORY_FILE = "sql-history.json"


class UserFile:
    """A text in the user's svc directory. Errors of reading and writing are ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """Return the text; "" if there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(self._path, text.encode())


def read_keymap(home: Path, known: Collection[str]) -> dict[str, str]:
    """Return the keys of `keys.toml` by binding id; empty without a file.

    A value lists keys with commas between them: `"rows.down" = "j,down"`. Raises `SvcError` for an unreadable
    or invalid file, and for an id that is not in `known`.
    """
    path = home / KEYMAP_FILE
    try:
        keymap = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SvcError(f"cannot read {path}: {error.strerror}", "Check its owner and permissions.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hint = 'Write one line per key: "board.connect" = "c"'
        raise SvcError(f"{path} is not valid TOML: {error}", hint) from error
    for name, keys in keymap.items():
        if name not in known:
            hint = did_you_mean(name, sorted(known)) or "Press ? in the Console to list the keys."
            raise InvalidUsage(f'{path}: unknown key id "{name}"', hint)
        if not isinstance(keys, str) or not all(key.strip() for key in keys.split(",")):
            raise InvalidUsage(f'{path}: "{name}" has no keys', 'Write them in quotes: "ctrl+n" or "j,down".')
    return keymap
