"""The way from the screens to the engine: one Project of one control API, reached again when it was lost.

Owns which client is used now and whether somebody answers. Knows no subject and imports no Textual.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

from svc_tui.client import Client, SvcError, Unreachable

LinkState = Literal["starting", "live", "lost"]


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """Whom the Console is attached to: a Project, run for development or by a service.

    `address` is what the header shows: the public address, or the service's.
    """

    project: str
    kind: Literal["dev", "service"]
    address: str


class ProjectClient:
    """One Project as the screens reach it. Every request raises `SvcError`; paths are below the Project's.

    The methods that wait are for threads, but for `call`. `watch` hears of each change of `state`, from any
    thread.
    """

    def __init__(
        self,
        place: ConnectionInfo,
        connect: Callable[[], Client],
        watch: Callable[[LinkState], None] | None = None,
    ) -> None:
        """`connect` finds the control API as it is now, and may take its time; raises `SvcError`."""
        self.info = place
        self.state: LinkState = "starting"
        self.on_state = watch
        self._connect = connect
        self._client: Client | None = None
        self._shut_down = False
        self._lock = threading.Lock()

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, Any] | None = None
    ) -> Any:
        """Return the document that answers a request, without holding the screen up."""
        return await asyncio.to_thread(self.call_sync, method, path, body, params=params)

    def call_sync(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        content: Iterable[bytes] | None = None,
    ) -> Any:
        """Return the document that answers a request: `ask("GET", "/tables")`."""
        return self._with(
            lambda client: client.call(method, self._path(path), body, params=params, content=content)
        )

    def lines(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: Any = None,
        content: Iterable[bytes] | None = None,
    ) -> Iterator[Any]:
        """Yield the documents of an NDJSON answer as they come; `content` is sent as it is read."""
        client = self.current_client()
        try:
            yield from client.lines(method, self._path(path), params=params, body=body, content=content)
        except Unreachable:
            self._mark_lost(client)
            raise

    def download(
        self, path: str, *, params: dict[str, Any] | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Give the bytes of an answer as they come."""
        return self.current_client().download(self._path(path), params=params)

    def current_client(self) -> Client:
        """Return the client in use. Raises `Unreachable` while there is none, without waiting for one."""
        client = self._client
        if client is None:
            how = "starts" if self.state == "starting" else "does not answer"
            raise Unreachable(
                f"the engine {how}; nothing was changed", "Try again when the top line says live."
            )
        return client

    def reconnect(self) -> None:
        """Look for the engine once, which may take its time. Raises what is more than that nobody answers."""
        client: Client | None = None
        try:
            client = self._connect()
            client.call("GET", "/v1/health")
        except SvcError as error:
            _close(client)
            self._mark_lost()
            if isinstance(error, Unreachable):
                return
            raise
        with self._lock:
            unused = client if self._shut_down else self._client
            if not self._shut_down:
                self._client = client
        _close(unused)
        self._set_state("live")

    def reset(self) -> None:
        """Have the engine found anew: whoever asks is somebody else now."""
        self._mark_lost()

    def shut_down(self) -> None:
        """Let go of the engine for good."""
        self._shut_down = True
        self.disconnect()

    def disconnect(self) -> None:
        """Let go of the connection; what waits for an answer is told that it ended."""
        with self._lock:
            client, self._client = self._client, None
        _close(client)

    def _path(self, path: str) -> str:
        return f"/v1/projects/{self.info.project}{path}"

    def _with(self, work: Callable[[Client], Any]) -> Any:
        client = self.current_client()
        try:
            return work(client)
        except Unreachable:
            self._mark_lost(client)
            raise

    def _mark_lost(self, client: Client | None = None) -> None:
        """Give up the client in use, or one that failed: late, perhaps, when another is in use already."""
        if client is not None and client is not self._client:
            return
        self.disconnect()
        if self.state != "starting":
            self._set_state("lost")

    def _set_state(self, state: LinkState) -> None:
        if state == self.state:
            return
        self.state = state
        if self.on_state is not None:
            self.on_state(state)


def _close(client: Client | None) -> None:
    if client is not None:
        client.close()
