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

State = Literal["starting", "live", "lost"]


@dataclass(frozen=True, slots=True)
class Place:
    """Whom the Console is attached to: a Project, run for development or by a service.

    `address` is what the header shows: the public address, or the service's.
    """

    project: str
    kind: Literal["dev", "service"]
    address: str


class Link:
    """One Project as the screens reach it. Every request raises `SvcError`; paths are below the Project's.

    The methods that wait are for threads, but for `call`. `watch` hears of each change of `state`, from any
    thread.
    """

    def __init__(
        self, place: Place, connect: Callable[[], Client], watch: Callable[[State], None] | None = None
    ) -> None:
        """`connect` finds the control API as it is now, and may take its time; raises `SvcError`."""
        self.place = place
        self.state: State = "starting"
        self.watch = watch
        self._connect = connect
        self._client: Client | None = None
        self._ended = False
        self._lock = threading.Lock()

    async def call(
        self, method: str, path: str, body: Any = None, *, params: dict[str, Any] | None = None
    ) -> Any:
        """Return the document that answers a request, without holding the screen up."""
        return await asyncio.to_thread(self.ask, method, path, body, params=params)

    def ask(
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
            lambda client: client.call(method, self._at(path), body, params=params, content=content)
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
        client = self.client()
        try:
            yield from client.lines(method, self._at(path), params=params, body=body, content=content)
        except Unreachable:
            self._lost(client)
            raise

    def download(
        self, path: str, *, params: dict[str, Any] | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Give the bytes of an answer as they come."""
        return self.client().download(self._at(path), params=params)

    def client(self) -> Client:
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
            _let_go(client)
            self._lost()
            if isinstance(error, Unreachable):
                return
            raise
        with self._lock:
            unused = client if self._ended else self._client
            if not self._ended:
                self._client = client
        _let_go(unused)
        self._turn("live")

    def renew(self) -> None:
        """Have the engine found anew: whoever asks is somebody else now."""
        self._lost()

    def end(self) -> None:
        """Let go of the engine for good."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """Let go of the connection; what waits for an answer is told that it ended."""
        with self._lock:
            client, self._client = self._client, None
        _let_go(client)

    def _at(self, path: str) -> str:
        return f"/v1/projects/{self.place.project}{path}"

    def _with(self, work: Callable[[Client], Any]) -> Any:
        client = self.client()
        try:
            return work(client)
        except Unreachable:
            self._lost(client)
            raise

    def _lost(self, client: Client | None = None) -> None:
        """Give up the client in use, or one that failed: late, perhaps, when another is in use already."""
        if client is not None and client is not self._client:
            return
        self.close()
        if self.state != "starting":
            self._turn("lost")

    def _turn(self, state: State) -> None:
        if state == self.state:
            return
        self.state = state
        if self.watch is not None:
            self.watch(state)


def _let_go(client: Client | None) -> None:
    if client is not None:
        client.close()
