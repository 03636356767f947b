"""Engine connections of the Console: an embedded engine, a running `svc dev`, or a project of a service."""

import asyncio
import contextlib
import os
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Literal

from engine.control.discovery import ControlEndpoint, find_endpoint
from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.http.sockets import PortInUse, bind, raise_fd_limit
from engine.lane import BuildFailed
from engine.manifest.load import load
from screens.project_client import ConnectionInfo
from svc_tui.background_loop import BackgroundLoop
from svc_tui.client import Client, Unreachable
from svc_tui.client.credentials import Credentials, CredentialStore, NotLoggedIn, current_project, open_client
from svc_tui.client.discovery import find_running
from svc_tui.garbage_collection import collect_for_server
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from engine.dev.project import BuildFinished

DEFAULT_PORT = 3000
_BUILD_HINT = "Select it on the Board: enter shows all errors, e opens the file."
REQUEST_TIMEOUT_SECONDS = 60.0
RECONNECT_SECONDS = 1.0
START_WAIT_SECONDS = 1.0
"""Maximum wait of one `connect` for an engine that is starting."""
Severity = Literal["error", "warning", "information"]
Notify = Callable[[Severity, str, str], None]
"""Shows a notification: severity, message, hint (or ""). Callable from any thread."""


class EngineConnection(ABC):
    """The engine of one project, for as long as the Console shows it."""

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info

    def start(self, notify: Notify) -> None:  # noqa: B027 - most engines run elsewhere
        """Start the engine if this process runs it. Called after the first screen was drawn."""

    @abstractmethod
    def connect(self) -> Client:
        """Return a client of the control API. Raises `Unreachable` if the API does not answer yet."""

    def wait_for_lost_access(self) -> SvcError | None:
        """Block until the API rejects this login; return that error. `None`: it never does."""
        return None

    def stop(self) -> None:  # noqa: B027
        """Stop the engine if `start` started it, and close connections."""


class RunningDevServer(EngineConnection):
    """A project served by an `svc dev` in another process."""

    def __init__(self, project: str, folder: Path, address: str = "") -> None:
        super().__init__(ConnectionInfo(project, "dev", address, str(folder)))
        self._data = folder / DATA_DIR

    def connect(self) -> Client:
        """Return a client of the `svc dev` that runs now. Raises `Unreachable` without one."""
        if (presence := find_endpoint(self._data)) is None:
            raise Unreachable("svc dev is not running", "Start it again: `svc dev`.")
        return _client(presence)


class ServiceProject(EngineConnection):
    """A project deployed to a service that runs: a Console would hold the folder of a stopped one."""

    def __init__(self, login: Credentials, project: str) -> None:
        super().__init__(ConnectionInfo(project, "service", login.key))
        self._login = login
        self._connection = contextlib.ExitStack()

    def connect(self) -> Client:
        """Return a client with the credentials of the login."""
        self._connection.close()
        return self._connection.enter_context(open_client(self._login, running=True))

    def wait_for_lost_access(self) -> SvcError | None:
        """Follow a stream of the service, which ends it when the login or its role is revoked."""
        if self._login.folder is not None:
            return None
        path = f"/v1/projects/{self.info.project}/logs"
        while True:
            try:
                with open_client(self._login) as client:
                    for _ in client.lines("GET", path, params={"follow": "true", "tail": 0}):
                        pass
            except SvcError as error:
                if isinstance(error, NotLoggedIn) or error.code == "forbidden":
                    return error
            time.sleep(RECONNECT_SECONDS)

    def stop(self) -> None:
        """Close the connection."""
        self._connection.close()


class EmbeddedEngine(EngineConnection):
    """The development engine, run by this process on a background thread."""

    def __init__(self, folder: Path, project: str, sockets: list[socket.socket]) -> None:
        """`sockets` are already bound, so that early requests wait instead of being refused."""
        self._port = int(sockets[0].getsockname()[1])
        super().__init__(ConnectionInfo(project, "dev", f"http://localhost:{self._port}", str(folder)))
        self._folder = folder
        self._sockets = sockets
        self._notify: Notify = lambda severity, message, hint: None
        self._last_error = ""
        self._thread: BackgroundLoop[ControlEndpoint] | None = None

    def start(self, notify: Notify) -> None:
        """Start the engine, or restart one that failed."""
        self._notify = notify
        if self._thread is not None:
            if not self._thread.finished.done():
                return
            self._sockets = bind("localhost", self._port)
        self._thread = BackgroundLoop(self._serve, "engine")

    def connect(self) -> Client:
        """Return a client of the control API; restart an engine that failed. Raises `Unreachable`."""
        starting = Unreachable("the engine is still starting", "Wait until the top line shows `live`.")
        if self._thread is None:
            raise starting
        self.start(self._notify)
        try:
            return _client(self._thread.ready.result(START_WAIT_SECONDS))
        except TimeoutError as error:
            raise starting from error

    def stop(self) -> None:
        """Stop the engine after its requests in progress have been answered."""
        if self._thread is not None:
            self._thread.stop()
            return
        for opened in self._sockets:  # The Console was closed before it started the engine.
            opened.close()

    @contextlib.asynccontextmanager
    async def _serve(self, stop: asyncio.Event) -> AsyncIterator[ControlEndpoint]:
        # Loading the engine takes a second. On this thread it does not delay the first screen.
        from engine.timeline.bus import TimelineBus
        from svc_tui.dev.server import Settings, run_dev

        cache = Home.from_environment(os.environ).cache()
        settings = Settings([self._sockets], cache, "dev")
        reporter = _NotifyReporter(self._notify)
        try:
            async with run_dev(load(self._folder), settings, TimelineBus(), reporter, stop) as running:
                collect_for_server()
                yield await running.presence
        except SvcError as error:
            raise self._unreachable(error) from error
        except Exception as error:
            if os.environ.get("SVC_DEBUG"):
                traceback.print_exc()
            failure = SvcError(f"the engine failed: {type(error).__name__}: {error}")
            raise self._unreachable(failure) from error

    def _unreachable(self, error: SvcError) -> Unreachable:
        if error.message != self._last_error:  # Every restart fails with the same error: show it once.
            self._notify("error", error.message, error.hint)
        self._last_error = error.message
        return Unreachable(error.message, error.hint)


def connect_folder(folder: Path, port: int | None) -> EngineConnection:
    """Return a connection to the `svc dev` running in a folder, or else to an embedded engine.

    The embedded engine listens on `port`; None means port 3000 or a free one.
    """
    name = load(folder).name
    if port is None and (running := find_running(folder / DATA_DIR, "/v1/projects")) is not None:
        address = ""
        with running, contextlib.suppress(SvcError):  # Without the address, the Console still works.
            address = running.call("GET", f"/v1/projects/{name}/state")["address"] or ""
        return RunningDevServer(name, folder, address.removesuffix("/"))
    raise_fd_limit()
    try:
        sockets = bind("localhost", DEFAULT_PORT if port is None else port)
    except PortInUse:
        if port is not None:
            raise
        sockets = bind("localhost", 0)
    return EmbeddedEngine(folder, name, sockets)


def connect_service(project: str) -> tuple[Credentials, EngineConnection]:
    """Return the login and a connection to a project of its service.

    An empty `project` means the project of this folder, or the only one of the service. Raises `SvcError` if
    neither decides.
    """
    project_folder = current_project()
    login = CredentialStore.from_environment(os.environ).get(project_folder)
    if not project:
        with open_client(login, running=True) as client:
            names = list(client.call("GET", "/v1/projects")["projects"])
        if not names:
            hint = "Run `svc deploy` in the folder of a project."
            raise SvcError(f"nothing is deployed at {login.key}", hint)
        own = load(project_folder).name if project_folder is not None else ""
        if own not in names and len(names) > 1:
            listed = shorten(", ".join(names), 300, placeholder=" …")
            hint = f"Run `svc console --project NAME`. Available: {listed}."
            raise InvalidUsage(f"{login.key} has several projects", hint)
        project = own if own in names else str(names[0])
    return login, ServiceProject(login, project)


class _NotifyReporter:
    """Reports events of the dev server as notifications; the Board shows successful builds itself."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify

    def error(self, error: SvcError) -> None:
        self._notify("error", error.message, error.hint)

    def warn(self, error: SvcError) -> None:
        self._notify("warning", error.message, error.hint)

    def note(self, text: str) -> None:
        self._notify("information", text, "")

    def progress(self, text: str) -> None:
        """Ignore progress: the Board shows it."""

    def built(self, event: "BuildFinished") -> None:
        if event.error is not None:
            problem = f"build failed: {event.error.message}"
            if isinstance(event.error, BuildFailed) and event.error.diagnostics:
                first, *others = event.error.diagnostics
                position = ":".join(str(part) for part in (first.file, first.line, first.column) if part)
                more = f" (and {len(others)} more)" if others else ""
                problem = f"{position}  {first.message}{more}".strip()
            self._notify("error", f"{event.resource}: {problem}", _BUILD_HINT)
        elif event.recovered:
            self._notify("information", f"{event.resource} builds again", "")


def _client(presence: ControlEndpoint) -> Client:
    return Client(presence.url, presence.token, REQUEST_TIMEOUT_SECONDS)
