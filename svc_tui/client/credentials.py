"""Credentials of services, the login that returns them, and the link from a project to its service.

`sessions.json` in `SVC_HOME` has mode 0600. Tokens are stored in the system's keyring if it works, otherwise
in that file. A keyring that fails or blocks never fails a command. The file `service` in a project's `.svc`
names its service. `SVC_URL` and `SVC_TOKEN` take precedence over both.
"""

import fcntl
import ipaddress
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from engine.errors import InvalidUsage, SvcError
from engine.files.atomic import write_atomic
from engine.files.data_dir import DATA_DIR, ensure_data_dir
from engine.manifest.load import NoProject, find, load
from engine.manifest.model import Project
from engine.manifest.schema import NAME_RULE, is_name
from svc_tui import version
from svc_tui.client import CONTROL_URL_HINT, ApiError, Client, Unreachable
from svc_tui.terminal import stderr
from svc_tui.user_home import Home

_PORTS = {"http": 80, "https": 443}


def service_url(text: str) -> str:
    """Return a URL in its normal form: scheme, host, and the port unless it is the scheme's default.

    The default scheme is https, and http for loopback addresses. Raises `InvalidUsage`.
    """
    try:
        url = urlsplit(text.strip() if "://" in text else f"//{text.strip()}")
        host, port = (url.hostname or "").lower().rstrip("."), url.port
        host.encode("idna")
        scheme = url.scheme or ("http" if is_loopback(host) else "https")
        if scheme not in _PORTS or not host or any(c.isspace() or ord(c) < 32 for c in text.strip()):
            raise ValueError
        if url.username is not None or url.password is not None:
            raise InvalidUsage("the URL contains a user name", "Pass the user name with --user.")
        if url.query or url.fragment or url.path not in ("", "/"):
            raise ValueError
    except ValueError as error:
        hint = "Use a URL such as https://svc.example.com or 127.0.0.1:8081."
        raise InvalidUsage(f"{text[:100]!r} is not a service URL", hint) from error
    url_host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{url_host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{url_host}:{port}"


def check_encryption(url: str, *, insecure: bool) -> bool:
    """Return whether traffic to a URL is unencrypted on a network.

    Raises `InvalidUsage` for such a URL unless `insecure` allows it.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return False
    if not insecure:
        hint = f"Use https://{parts.netloc} or an SSH tunnel, or pass --insecure if you trust the network."
        raise InvalidUsage(f"passwords and tokens would be sent to {url} unencrypted", hint)
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


T = TypeVar("T")
SERVICE = "svc"
KEYRING_SECONDS = 20.0
"""Time limit of one call: a keyring may prompt the user to unlock it."""
_MIN_PRIORITY = 1
"""Priority of a backend that encrypts; insecure backends have a lower one."""


class Keyring:
    """Storage of secrets by name; every method gives up after `seconds`."""

    def __init__(self, seconds: float = KEYRING_SECONDS) -> None:
        self._seconds = seconds

    def save(self, name: str, secret: str) -> bool:
        """Store a secret and return whether that succeeded."""

        def work(backend: Any) -> bool:
            backend.set_password(SERVICE, name, secret)
            return bool(backend.get_password(SERVICE, name) == secret)

        return bool(self._try(work))

    def get(self, name: str) -> str | None:
        """Return a secret, or None if it is missing or unreadable."""
        secret = self._try(lambda backend: backend.get_password(SERVICE, name))
        return secret if isinstance(secret, str) else None

    def delete(self, name: str) -> None:
        """Delete a secret; failures are ignored."""
        self._try(lambda backend: backend.delete_password(SERVICE, name))

    def _try(self, work: Callable[[Any], T]) -> T | None:
        results: list[T] = []

        def run() -> None:
            # Backends are third-party code and raise any error.
            try:
                import keyring

                backend = keyring.get_keyring()
                if backend.priority >= _MIN_PRIORITY:
                    results.append(work(backend))
            except Exception:
                return

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(self._seconds)
        return results[0] if results else None


SESSIONS_FILE = "sessions.json"
PROJECT_FILE = "service"
VERSION = 1


class NotLoggedIn(SvcError):
    """Missing or unusable credentials."""

    code = "unauthenticated"


class SessionsCorrupt(NotLoggedIn):
    """An unreadable `sessions.json`."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access to a service: `url` and `token`, or the `folder` of its data on this machine.

    `key` identifies the service in `sessions.json`. `insecure` allows http to other machines.
    `from_environment` marks the token of SVC_TOKEN.
    """

    key: str
    url: str = ""
    _: KW_ONLY
    token: str = ""
    user: str = ""
    folder: Path | None = None
    insecure: bool = False
    from_environment: bool = False

    def expired_error(self) -> NotLoggedIn:
        """Return the error for a token that the service rejects."""
        if self.from_environment:
            return NotLoggedIn(
                f"{self.key} rejected SVC_TOKEN: expired, revoked, or of another service",
                "Set it to the output of `svc token create`, or unset it to use your own session.",
            )
        return NotLoggedIn(f"the session with {self.key} has expired", f"Log in with `svc login {self.key}`.")


class CredentialStore:
    """The stored credentials of the user. Methods raise `SvcError`."""

    def __init__(self, home: Home, environ: Mapping[str, str], keyring: Keyring | None = None) -> None:
        self._path = home.root / SESSIONS_FILE
        self._environ = environ
        self._keyring = keyring or Keyring()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "CredentialStore":
        """Return the store of this user."""
        return cls(Home.from_environment(environ), environ)

    def get(self, project: Path | None = None) -> Credentials:
        """Return the credentials of the environment, of the project's service, or of the last login.

        Raises `NotLoggedIn` when none are stored, and `InvalidUsage`.
        """
        url, token = self._environ.get("SVC_URL", ""), self._environ.get("SVC_TOKEN", "").strip()
        if token and not url:
            raise NotLoggedIn("SVC_TOKEN is set, but SVC_URL is not", "Set both or neither.")
        url = service_url(url) if url else ""
        if token:
            if not _is_token(token):
                hint = "Set it to the output of `svc token create`, or unset it."
                raise NotLoggedIn("SVC_TOKEN is not a valid token", hint)
            insecure = self._environ.get("SVC_INSECURE") == "1"
            check_encryption(url, insecure=insecure)
            return Credentials(url, url, token=token, insecure=insecure, from_environment=True)
        sessions = self._read()
        linked = ""
        if project is not None:
            with suppress(OSError, UnicodeDecodeError):
                linked = (project / DATA_DIR / PROJECT_FILE).read_text().strip()
        key = url or linked or sessions["current"]
        if not key:
            raise NotLoggedIn("you are not logged in", "Log in with `svc login URL`.")
        session = sessions["services"].get(key)
        if session is None:
            raise NotLoggedIn(f"you are not logged in to {key}", f"Log in with `svc login {key}`.")
        if session.get("folder") is True:
            return Credentials(key, folder=Path(key), user=str(session.get("user", "")))
        stored = self._keyring.get(_entry(key, session)) if session.get("keyring") else session.get("token")
        if not isinstance(stored, str) or not _is_token(stored):
            source = "the system's keyring" if session.get("keyring") else self._path
            raise NotLoggedIn(f"{source} has no session with {key}", f"Log in with `svc login {key}`.")
        insecure = session.get("insecure") is True
        url = service_url(key)
        check_encryption(url, insecure=insecure)
        return Credentials(key, url, token=stored, user=str(session.get("user", "")), insecure=insecure)

    def services(self) -> list[str]:
        """Return the keys of all services, the current one first."""
        sessions = self._read()
        return sorted(sessions["services"], key=lambda key: (key != sessions["current"], key))

    def save(self, credentials: Credentials) -> bool:
        """Store credentials as the current ones; return whether the token is in the system's keyring."""
        session: dict[str, Any] = {"user": credentials.user}
        in_keyring = False
        if credentials.folder is not None:
            session["folder"] = True
        else:
            in_keyring = self._keyring.save(_entry(credentials.key, session), credentials.token)
            session |= {"keyring": True} if in_keyring else {"token": credentials.token}
            session |= {"insecure": True} if credentials.insecure else {}
        with self._changed() as sessions:
            old_session = sessions["services"].get(credentials.key, {})
            sessions["services"][credentials.key], sessions["current"] = session, credentials.key
        old_entry = _entry(credentials.key, old_session)
        if old_session.get("keyring") and old_entry != _entry(credentials.key, session):
            self._keyring.delete(old_entry)
        return in_keyring

    def delete(self, key: str) -> None:
        """Delete the session of a service."""
        with self._changed() as sessions:
            session = sessions["services"].pop(key, {})
            if sessions["current"] == key:
                sessions["current"] = next(iter(sessions["services"]), "")
        if session.get("keyring"):
            self._keyring.delete(_entry(key, session))

    def link_project(self, project: Path, key: str) -> None:
        """Link a project to a service: commands in its folder use it from now on.

        Raises `SvcError` when `.svc` is not writable.
        """
        try:
            (ensure_data_dir(project / DATA_DIR) / PROJECT_FILE).write_text(key + "\n")
        except OSError as error:
            message = f"cannot write {project / DATA_DIR}: {error.strerror}"
            raise SvcError(message, "Check the owner of the folder.") from error

    def _read(self) -> dict[str, Any]:
        """Return the key of the `current` service, and the stored fields of all `services` by their keys."""
        try:
            # A copied file, or one of an old version, may be readable by other users.
            if self._path.stat().st_mode & 0o077:
                self._path.chmod(0o600)
            document = json.loads(self._path.read_bytes())
            version, current, services = document["version"], document["current"], document["services"]
            valid = isinstance(current, str) and isinstance(services, dict)
            if not valid or not all(isinstance(session, dict) for session in services.values()):
                raise TypeError(SESSIONS_FILE)
        except FileNotFoundError:
            return {"current": "", "services": {}}
        except OSError as error:
            message = f"cannot read {self._path}: {error.strerror}"
            raise NotLoggedIn(message, "Check the owner of the file.") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SessionsCorrupt(f"{self._path} is corrupt", "Log in again with `svc login URL`.") from error
        if version != VERSION:
            raise NotLoggedIn(f"{self._path} was written by a newer version of svc", "Update svc.")
        return {"current": current, "services": services}

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        """Yield the stored sessions under an exclusive lock, then write them. A corrupt file is renamed."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    sessions = self._read()
                except SessionsCorrupt:
                    self._path.replace(self._path.with_name(SESSIONS_FILE + ".damaged"))
                    sessions = {"current": "", "services": {}}
                yield sessions
                write_atomic(self._path, f"{json.dumps({'version': VERSION, **sessions})}\n".encode())
            finally:
                os.close(lock)
        except OSError as error:
            message = f"cannot write {self._path}: {error.strerror}"
            raise SvcError(message, "Set SVC_HOME to a folder that you can write to.") from error


def _entry(key: str, session: Mapping[str, Any]) -> str:
    """Return the keyring name of a session. Every `SVC_HOME` of a user shares one keyring."""
    return f"{session.get('user', '')}@{key}"


def _is_token(text: str) -> bool:
    """Return whether text is valid in a header."""
    return bool(text) and text.isascii() and text.isprintable()


@contextmanager
def open_client(credentials: Credentials, *, running: bool = False) -> Iterator[Client]:
    """Yield a client of a service, with `running` not of a stopped one. Raises `SvcError`."""
    if credentials.folder is None:
        with Client(credentials.url, credentials.token, expired_error=credentials.expired_error) as client:
            yield client
        return
    # The service takes a second to load.
    from svc_tui.client.discovery import service_client

    with service_client(credentials.folder, running=running) as client:
        yield client


@contextmanager
def noted_client(credentials: Credentials) -> Iterator[Client]:
    """Yield a client of a service, after a note if that is stopped. Raises `SvcError`."""
    with open_client(credentials) as client:
        if client.stopped:
            stderr.note(f"the service on {credentials.folder} is stopped; this command uses its folder")
        yield client


def call_service(method: str, path: str, body: Any = None) -> Any:
    """Call the service of the current project, or of the last login. Raises `SvcError`."""
    with noted_client(CredentialStore.from_environment(os.environ).get(current_project())) as client:
        return client.call(method, path, body)


@contextmanager
def project_service() -> Iterator[tuple[Client, Project]]:
    """Yield a client of the service of the current project, and the project. Raises `SvcError`."""
    project = load(find(Path.cwd()))
    with noted_client(CredentialStore.from_environment(os.environ).get(project.root)) as client:
        client.project = project.name
        yield client, project


def current_project() -> Path | None:
    """Return the folder of the project around the current folder, or None."""
    try:
        return find(Path.cwd())
    except (NoProject, OSError):
        return None


API = "1"
TIMEOUT_SECONDS = 30.0
MIN_PASSWORD_CHARS = 10


def password_problem(password: str) -> str:
    """Return why a service rejects a new password, or "" if it is long enough."""
    if len(password) >= MIN_PASSWORD_CHARS:
        return ""
    return f"the password has {len(password)} characters; at least {MIN_PASSWORD_CHARS} are required"


def require_password(password: str) -> None:
    """Raise `InvalidUsage` for a new password that a service rejects."""
    if problem := password_problem(password):
        raise InvalidUsage(problem, "Enter a longer password.")


def is_claimed(client: Client) -> bool:
    """Return whether the service has an owner.

    Raises `Unreachable` for a server that is not svc, and `SvcError` for another version of svc.
    """
    health: Any = None
    try:
        health = client.call("GET", "/v1/health")
    except ApiError as error:  # Other servers return problem documents too.
        if error.code != "not-found":
            raise
    if not isinstance(health, dict) or health.get("status") != "ok":
        raise _not_a_service(client)
    if health.get("api") != API or health.get("version", version()) != version():
        service_version = health.get("version", f"API {health.get('api')}")
        raise SvcError(
            f"version mismatch: this is svc {version()}, {client.url} runs {service_version}",
            "Install the same version on both.",
        )
    claim = client.call("GET", "/v1/claim")
    if not isinstance(claim, dict) or not isinstance(claim.get("claimed"), bool):
        raise _not_a_service(client)
    return bool(claim["claimed"])


def log_in(
    client: Client, user: str, password: str, code: str | None = None, *, insecure: bool = False
) -> Credentials:
    """Log in; with a claim code, become the first owner. Raises `SvcError` for an invalid name.

    `insecure` is stored with the credentials: http to another machine was allowed.
    """
    if not is_name(user):
        raise InvalidUsage(f"{user!r} is not a valid user name", NAME_RULE)
    body = {"user": user, "password": password}
    if code is None:
        session = client.call("POST", "/v1/login", body)
    else:
        require_password(password)
        session = client.call("POST", "/v1/claim", {**body, "code": code})
    url = client.url
    try:
        return Credentials(
            url, url, token=str(session["token"]), user=str(session["user"]), insecure=insecure
        )
    except (KeyError, TypeError) as error:
        raise _not_a_service(client) from error


def _not_a_service(client: Client) -> Unreachable:
    return Unreachable(f"the server at {client.url} is not a svc service", CONTROL_URL_HINT)
