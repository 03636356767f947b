"""Where the Console has its engine from: this process, a `svc dev` that runs already, or a service.

Owns beginning and ending it, and finding its control API again. Knows no screen.
"""

import asyncio
import contextlib
import os
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal, Protocol

from engine.control.discovery import Presence, find
from engine.errors import SvcError
from engine.files.data_dir import FOLDER
from engine.http.sockets import bind
from screens.project_client import Place
from svc_tui.background_loop import OwnThread
from svc_tui.client import Client, Unreachable
from svc_tui.client.credentials import Login, connected

ANSWER_SECONDS = 60.0
START_SECONDS = 1.0
"""How long an engine that starts is waited for at a time."""
Tell = Callable[[Literal["error", "warning", "information"], str, str], None]
"""Takes what is worth knowing, and a hint or nothing, from any thread."""


class Attachment(Protocol):
    """An engine of one Project, for as long as the Console shows it."""

    place: Place

    def begin(self, tell: Tell) -> None:
        """Have the engine begin, if it is ours; called once the screen is there."""

    def connect(self) -> Client:
        """Return a client of the control API as it is now. Raises `Unreachable` where there is none yet."""
        ...

    def end(self) -> None:
        """End what was begun."""


class Beside:
    """A Project that a `svc dev` of its own runs."""

    def __init__(self, project: str, folder: Path, address: str = "") -> None:
        self.place = Place(project, "dev", address)
        self._data = folder / FOLDER

    def begin(self, tell: Tell) -> None:
        """Begin nothing."""

    def connect(self) -> Client:
        """Return a client of the one that announced itself last."""
        if (presence := find(self._data)) is None:
            raise Unreachable("svc dev does not run any more", "Start it again: `svc dev`.")
        return _client(presence)

    def end(self) -> None:
        """End nothing."""


class OfService:
    """A Project as a service runs it."""

    def __init__(self, login: Login, project: str) -> None:
        self.place = Place(project, "service", login.key)
        self._login = login
        self._open = contextlib.ExitStack()

    def begin(self, tell: Tell) -> None:
        """Begin nothing: a data folder's engine runs once it is asked for."""

    def connect(self) -> Client:
        """Return a client with this session."""
        self._open.close()
        return self._open.enter_context(connected(self._login))

    def end(self) -> None:
        """Let go of the data folder, where it is one."""
        self._open.close()


class Embedded:
    """A Project that this process runs, on a thread with a loop of its own."""

    def __init__(self, folder: Path, project: str, sockets: list[socket.socket]) -> None:
        """`sockets` are bound, so that whoever asks early waits instead of being refused."""
        self._port = int(sockets[0].getsockname()[1])
        self.place = Place(project, "dev", f"http://localhost:{self._port}")
        self._folder = folder
        self._sockets = sockets
        self._tell: Tell = lambda severity, message, hint: None
        self._said = ""
        self._thread: OwnThread[Presence] | None = None

    def begin(self, tell: Tell) -> None:
        """Begin it, and once more where it ended by itself."""
        self._tell = tell
        if self._thread is not None:
            if not self._thread.over.done():
                return
            self._sockets = bind("localhost", self._port)
        self._thread = OwnThread(self._serve, "engine")

    def connect(self) -> Client:
        """Return a client if the control API is there soon; an engine that ended begins again."""
        if self._thread is None:
            raise Unreachable("the engine has not begun", "It begins with the Console.")
        self.begin(self._tell)
        try:
            return _client(self._thread.given.result(START_SECONDS))
        except TimeoutError as error:
            raise Unreachable("the engine starts", "It takes a few seconds.") from error

    def end(self) -> None:
        """End it and wait until what was asked of it is answered."""
        if self._thread is not None:
            self._thread.end()
            return
        for opened in self._sockets:  # Left before there was anything to see.
            opened.close()

    @contextlib.asynccontextmanager
    async def _serve(self, stop: asyncio.Event) -> AsyncIterator[Presence]:
        # The engine takes a second to load: here, it holds no screen up.
        from svc_tui.console.embedded import embedded

        try:
            async with embedded(self._folder, self._sockets, self._tell, stop) as presence:
                yield presence
        except SvcError as error:
            raise self._ended(error) from error
        except Exception as error:
            if os.environ.get("SVC_DEBUG"):
                traceback.print_exc()
            raise self._ended(SvcError(f"the engine failed: {type(error).__name__}: {error}")) from error

    def _ended(self, error: SvcError) -> Unreachable:
        if error.message != self._said:  # it is tried again and again
            self._tell("error", error.message, error.hint)
        self._said = error.message
        return Unreachable(error.message, error.hint)


def _client(presence: Presence) -> Client:
    return Client(presence.url, presence.token, ANSWER_SECONDS)
