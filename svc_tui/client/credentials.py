"""Where one is logged in: services, the tokens of sessions, and which service a Project belongs to.

Owns `sessions.json` in the user's folder of svc, which only they may read, and the file `service` in a
Project's `.svc`. Tokens are in the system's keyring where it works, else in that file. `SVC_URL` and
`SVC_TOKEN` go before all of it, for CI.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.files.data_dir import DATA_DIR, ensure_data_dir
from engine.manifest.load import NoProject, find
from svc_tui.client import Client
from svc_tui.client.keyring import Keyring
from svc_tui.client.urls import check_encryption, service_url
from svc_tui.user_home import Home

SESSIONS_FILE = "sessions.json"
PROJECT_FILE = "service"
VERSION = 1


class NotLoggedIn(SvcError):
    """There is no session to work with."""

    code = "unauthenticated"


class SessionsCorrupt(NotLoggedIn):
    """What is kept can not be read."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A service and how to come in: `url` and `token`, or the `folder` of its data on this machine.

    `key` names it in what is kept. `insecure` allows http to other machines. `of_environment`: the token is
    that of SVC_TOKEN.
    """

    key: str
    url: str = ""
    token: str = ""
    user: str = ""
    folder: Path | None = None
    insecure: bool = False
    from_environment: bool = False

    def expired_error(self) -> NotLoggedIn:
        """Return the error for a token that the service does not take."""
        if self.from_environment:
            return NotLoggedIn(
                f"{self.key} does not take the token in SVC_TOKEN: it has ended, or is not of this service",
                "Set it to what `svc token create` prints, or unset it to work with your own session.",
            )
        return NotLoggedIn(f"the session with {self.key} is over", f"Log in with `svc login {self.key}`.")


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The file. `services` has by key what is known of each."""

    current: str = ""
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class CredentialStore:
    """The services that the user is logged in to. Methods raise `SvcError`."""

    def __init__(self, home: Home, environ: Mapping[str, str], keychain: Keyring | None = None) -> None:
        self._path = home.root / SESSIONS_FILE
        self._environ = environ
        self._keychain = keychain or Keyring()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "CredentialStore":
        """Return those of this user."""
        return cls(Home.from_environment(environ), environ)

    def get(self, project: Path | None = None) -> Credentials:
        """Return what to work with: of the environment, of the Project in a folder, or the latest.

        Raises `NotLoggedIn` where there is none, and `BadAddress`.
        """
        url, token = self._environ.get("SVC_URL", ""), self._environ.get("SVC_TOKEN", "").strip()
        if token and not url:
            raise NotLoggedIn("SVC_TOKEN is set, and SVC_URL is not", "Set both, or none of them.")
        if url:
            url = service_url(url)
            if token:
                if not _is_token(token):
                    raise NotLoggedIn(
                        "SVC_TOKEN is no token", "Set it to what `svc token create` printed, or unset it."
                    )
                insecure = self._environ.get("SVC_INSECURE") == "1"
                check_encryption(url, insecure=insecure)
                return Credentials(url, url, token, insecure=insecure, from_environment=True)
        kept = self._read()
        key = url or (self._of(project) if project else "") or kept.current
        if not key:
            raise NotLoggedIn("you are not logged in", "Log in with `svc login URL`.")
        known = kept.services.get(key)
        if known is None:
            raise NotLoggedIn(f"you are not logged in to {key}", f"Log in with `svc login {key}`.")
        return self._login(key, known)

    def services(self) -> list[str]:
        """Return the keys of all services, the one used last first."""
        kept = self._read()
        return sorted(kept.services, key=lambda key: (key != kept.current, key))

    def _login(self, key: str, known: Mapping[str, Any]) -> Credentials:
        if known.get("folder") is True:
            return Credentials(key, folder=Path(key), user=str(known.get("user", "")))
        token = self._keychain.get(_entry(key, known)) if known.get("keyring") else known.get("token")
        if not isinstance(token, str) or not _is_token(token):
            where = "the system's keyring does not give" if known.get("keyring") else f"{self._path} has not"
            raise NotLoggedIn(f"{where} the session with {key}", f"Log in with `svc login {key}`.")
        insecure = known.get("insecure") is True
        url = service_url(key)
        check_encryption(url, insecure=insecure)
        return Credentials(key, url, token, str(known.get("user", "")), insecure=insecure)

    def save(self, login: Credentials) -> bool:
        """Keep a session, as the latest; whether its token is in the system's keyring."""
        known: dict[str, Any] = {"user": login.user}
        in_keyring = False
        if login.folder is not None:
            known["folder"] = True
        else:
            in_keyring = self._keychain.save(_entry(login.key, known), login.token)
            known |= {"keyring": True} if in_keyring else {"token": login.token}
            known |= {"insecure": True} if login.insecure else {}
        with self._changing() as kept:
            before = kept.services.get(login.key, {})
            self._write(_Sessions(login.key, {**kept.services, login.key: known}))
        if before.get("keyring") and _entry(login.key, before) != _entry(login.key, known):
            self._keychain.delete(_entry(login.key, before))
        return in_keyring

    def delete(self, key: str) -> None:
        """Forget a service."""
        with self._changing() as kept:
            known = kept.services.get(key, {})
            left = {other: value for other, value in kept.services.items() if other != key}
            current = kept.current if kept.current != key else next(iter(left), "")
            self._write(replace(kept, current=current, services=left))
        if known.get("keyring"):
            self._keychain.delete(_entry(key, known))

    def link_project(self, project: Path, key: str) -> None:
        """Have the Project in a folder belong to a service from now on, whichever is the latest."""
        try:
            (ensure_data_dir(project / DATA_DIR) / PROJECT_FILE).write_text(key + "\n")
        except OSError as error:
            raise SvcError(
                f"{project / DATA_DIR} can not be written: {error.strerror}", "Check who owns the folder."
            ) from error

    def _of(self, project: Path) -> str:
        try:
            return (project / DATA_DIR / PROJECT_FILE).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _read(self) -> _Sessions:
        try:
            # A copy from elsewhere, or a umask of old, may have left it readable for others.
            if self._path.stat().st_mode & 0o077:
                self._path.chmod(0o600)
            found = json.loads(self._path.read_bytes())
            version, current, services = found["version"], found["current"], found["services"]
            whole = isinstance(current, str) and isinstance(services, dict)
            if not whole or not all(isinstance(known, dict) for known in services.values()):
                raise TypeError(SESSIONS_FILE)
        except FileNotFoundError:
            return _Sessions()
        except OSError as error:
            raise NotLoggedIn(
                f"{self._path} can not be read: {error.strerror}", "Check who owns it."
            ) from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SessionsCorrupt(f"{self._path} is damaged", "Log in again with `svc login URL`.") from error
        if version != VERSION:
            raise NotLoggedIn(f"{self._path} was written by another version of svc", "Update svc.")
        return _Sessions(current, services)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Sessions]:
        """Give what is kept, while no other process changes it. A damaged file is put aside."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                kept = self._read()
            except SessionsCorrupt:
                self._path.replace(self._path.with_name(SESSIONS_FILE + ".damaged"))
                kept = _Sessions()
            yield kept
        finally:
            os.close(lock)

    def _write(self, kept: _Sessions) -> None:
        text = json.dumps({"version": VERSION, "current": kept.current, "services": dict(kept.services)})
        try:
            write_atomic(self._path, f"{text}\n".encode())
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> SvcError:
        return SvcError(
            f"{self._path} can not be written: {error.strerror}",
            "Set SVC_HOME to a folder that you can write.",
        )


def _entry(key: str, known: Mapping[str, Any]) -> str:
    """Return what names a session in the keyring, which other homes of the same user share."""
    return f"{known.get('user', '')}@{key}"


def _is_token(text: str) -> bool:
    """Whether it can stand in a header."""
    return bool(text) and text.isascii() and text.isprintable()


@contextlib.contextmanager
def open_client(login: Credentials) -> Iterator[Client]:
    """Give a client of what one is logged in to. Raises `SvcError`."""
    if login.folder is None:
        with Client(login.url, login.token, expired_error=login.expired_error) as client:
            yield client
        return
    # The whole service is behind it, which takes a second to load.
    from svc_tui.client import local_service

    with local_service.service_client(login.folder) as client:
        yield client


def current_project() -> Path | None:
    """Return the folder of the Project that one is in."""
    try:
        return find(Path.cwd())
    except (NoProject, OSError):
        return None
