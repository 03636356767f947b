"""Client of one project's control API that reconnects after a lost connection, and the log of its changes."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from screens.files import Chunks
from screens.widgets.rows import Line, Tone, sanitize
from svc_tui.client import Client, SvcError, Unreachable
from svc_tui.tables_syntax import ColumnTypes
from svc_tui.terminal.units import clock, duration

MAX_ACTIONS = 1000
"""Maximum number of actions; the oldest are dropped."""
_READS = ("/grid", "/import/preview", "/logs", "/manifest/plan")
"""Beginnings of paths that change nothing, whatever the method."""


class ActivityLog:
    """The last actions. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._actions: deque[tuple[int, str, Tone]] = deque(maxlen=MAX_ACTIONS)

    def add(self, text: str, tone: Tone = "") -> None:
        self._actions.append((time.time_ns(), text, tone))

    @contextmanager
    def call(self, method: str, path: str, body: Any) -> Iterator[None]:
        """Add the call that the block makes, unless it only reads."""
        start = time.perf_counter_ns()
        try:
            yield
        except SvcError as error:
            if _changes(method, path, body):
                self.add(f"{method} {path}  {error.message}", "bad")
            raise
        if _changes(method, path, body):
            self.add(f"{method} {path}  {duration(time.perf_counter_ns() - start)}", "notice")

    def lines(self) -> list[Line]:
        """Return the actions, newest first."""
        return [
            [(f"{clock(time_ns)}  ", "dim"), (sanitize(" · ".join(text.splitlines())), tone)]
            for time_ns, text, tone in reversed(tuple(self._actions))
        ]


def _changes(method: str, path: str, body: Any) -> bool:
    if method == "GET" or path.startswith(_READS):
        return False
    return path != "/sql" or (isinstance(body, Mapping) and bool(body.get("write")))


LinkState = Literal["starting", "live", "lost"]


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """The project that the Console shows, and where it runs.

    `address` is shown in the top line: the project's URL in development, or the service's. `folder` is the
    project's folder on this machine, or empty.
    """

    project: str
    kind: Literal["dev", "service"]
    address: str
    folder: str = ""


class ProjectClient:
    """Requests below `/v1/projects/NAME` of one control API. Every request raises `SvcError`.

    All methods except `call` block and are for worker threads.
    """

    def __init__(
        self,
        info: ConnectionInfo,
        connect: Callable[[], Client],
        on_state: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a client. `connect` opens a connection; it may block and raise `SvcError`.

        `on_state` is called on each change of `state`, from any thread.
        """
        self.info = info
        self.state: LinkState = "starting"
        self._on_state = on_state
        self.known_tables: tuple[str, ...] = ()
        """The names of the tables when they were last fetched."""
        self.activity = ActivityLog()
        """The calls that changed something."""
        self.in_fleet = False
        """Whether the service was a node of a fleet when the connection was opened."""
        self._connect = connect
        self._client: Client | None = None
        self._types: ColumnTypes | None = None
        self._shut_down = False
        self._lock = threading.Lock()

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, Any] | None = None
    ) -> Any:
        """Return the JSON response of a request, without blocking the event loop."""
        return await asyncio.to_thread(self.call_sync, method, path, body, params=params)

    async def cancelable(self, method: str, path: str, body: Any) -> Any:
        """Return the JSON response of a request, which the API ends when the caller is canceled."""
        client = self.current_client()
        with self.activity.call(method, path, body):
            try:
                return await client.cancelable(method, self._path(path), body)
            except Unreachable:
                await asyncio.to_thread(self.mark_lost, client)
                raise

    async def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts of the project and of its service that last, as far as the user may see them."""
        document = await asyncio.to_thread(self.current_client().call, "GET", "/v1/alerts")
        return [each for each in document["alerts"] if each["project"] in (None, self.info.project)]

    async def column_types(self) -> ColumnTypes:
        """Return the column types, which are fetched once."""
        if self._types is None:
            self._types = ColumnTypes.from_document(await self.call("GET", "/tables/types"))
        return self._types

    async def table_names(self) -> list[str]:
        """Return the names of all tables."""
        self.known_tables = tuple(table["name"] for table in (await self.call("GET", "/tables"))["tables"])
        return list(self.known_tables)

    def call_sync(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        content: Iterable[bytes] | None = None,
    ) -> Any:
        """Return the JSON response of a request, as in `call_sync("GET", "/tables")`."""
        with self.activity.call(method, path, body), self._connected() as client:
            return client.call(method, self._path(path), body, params=params, content=content)

    def lines(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: Any = None,
        content: Iterable[bytes] | None = None,
    ) -> Iterator[Any]:
        """Yield the documents of an NDJSON response as they arrive; `content` is streamed."""
        with self._connected() as client, self.activity.call(method, path, body):
            yield from client.lines(method, self._path(path), params=params, body=body, content=content)

    def download(self, path: str, *, params: dict[str, Any] | None = None) -> Chunks:
        """Yield the chunks of a response body."""
        with self.current_client().download(self._path(path), params=params) as chunks:
            yield from chunks

    def current_client(self) -> Client:
        """Return the connected client. Raises `Unreachable` at once if there is none."""
        client = self._client
        if client is None:
            problem = "starts" if self.state == "starting" else "does not answer"
            hint = "Try again when the top line shows `live`."
            raise Unreachable(f"the engine {problem}; nothing was changed", hint)
        return client

    def reconnect(self) -> None:
        """Try to connect once. Raises `SvcError` except `Unreachable`, which only updates `state`."""
        client: Client | None = None
        try:
            client = self._connect()
            health = client.call("GET", "/v1/health")
        except SvcError as error:
            _close(client)
            self.mark_lost()
            if isinstance(error, Unreachable):
                return
            raise
        with self._lock:
            unused = client if self._shut_down else self._client
            if not self._shut_down:
                self._client = client
        _close(unused)
        self.in_fleet = bool(health.get("fleet"))
        self._set_state("live")

    def shut_down(self) -> None:
        """Close the connection permanently."""
        self._shut_down = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection. Waiting requests fail."""
        with self._lock:
            client, self._client = self._client, None
        _close(client)

    def _path(self, path: str) -> str:
        return f"/v1/projects/{self.info.project}{path}"

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """Yield the connected client, which is dropped if its connection is lost."""
        client = self.current_client()
        try:
            yield client
        except Unreachable:
            self.mark_lost(client)
            raise

    def mark_lost(self, client: Client | None = None) -> None:
        """Drop a client that failed (None: the current one). Ignore it if it was replaced already."""
        if client is not None and client is not self._client:
            return
        self.disconnect()
        if self.state != "starting":
            self._set_state("lost")

    def _set_state(self, state: LinkState) -> None:
        if state != self.state:
            self.state = state
            self._on_state()


def _close(client: Client | None) -> None:
    if client is not None:
        client.close()
