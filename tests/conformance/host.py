"""Runs a guest on the real engine, for a client without a connection, and parses its printed lines.

Components are compiled in this process, without the cache and the process of their own that deploys have.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from wasmtime import wat2wasm
from wasmtime.component import Component

import engine.wasm.execution.runner
from engine.artifact import ComponentArtifact
from engine.http.exchange import Disconnected, RequestBody
from engine.manifest.model import Resource
from engine.wasm.capi.host_functions import FUNCTIONS, HostFunction
from engine.wasm.capi.linker import LinkedComponent
from engine.wasm.compile.compilers import compilers
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.weave.weaver import weave
from tests.conformance.canonical import load
from tests.conformance.guest import Guest, Step
from tests.engine.exchanges import CollectingExchange

_T = TypeVar("_T")
TRACEPARENT = f"00-{'7' * 32}-{'3' * 16}-01"


@dataclass
class Client:
    """Sends a request: its body in `pieces`, and more when `then` triggers after a reported step."""

    method: str = "GET"
    target: str = "/"
    headers: list[tuple[bytes, bytes]] = field(default_factory=lambda: [(b"host", b"api.localhost")])
    pieces: list[bytes] = field(default_factory=list)
    open: bool = False
    scheme: str = "http"
    max_body: int = 32 << 20
    then: dict[int, Callable[["Client"], None]] = field(default_factory=dict)
    body: RequestBody = field(default_factory=RequestBody)
    disconnected: Disconnected = field(default_factory=Disconnected)
    pending: list[Callable[[], None]] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = None

    def after(self, step: Step, action: Callable[["Client"], None]) -> None:
        """Run an action when the guest has reported a step."""
        self.then[step.number] = action

    def feed(self, data: bytes, *, more: bool = False) -> None:
        """Send a piece of the body."""

        def arrive() -> None:
            self.body.feed(data)
            if not more:
                self.body.finish()

        self._schedule(arrive)

    def leave(self) -> None:
        """Disconnect."""

        def leave() -> None:
            self.body.interrupt()
            self.disconnected.set()

        self._schedule(leave)

    def _schedule(self, action: Callable[[], None]) -> None:
        """Run an action in its own turn of the event loop, as a connection does."""
        if self.loop is None:
            self.pending.append(action)
        else:
            self.loop.call_soon(action)

    def start(self) -> None:
        """Start to send the body."""
        for i, piece in enumerate(self.pieces):
            self.feed(piece, more=self.open or i < len(self.pieces) - 1)
        if not self.pieces and not self.open:
            self.body.finish()
        self.loop = asyncio.get_running_loop()
        for action in self.pending:
            self.loop.call_soon(action)


@dataclass
class Answer:
    """A run's response as seen by the client, its report, and the results of the guest's calls."""

    guest: Guest
    report: RunReport = None  # type: ignore[assignment]
    status: int | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    ended: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list)
    _areas: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    _current: tuple[int, bytes, bytearray] = (0, b"", bytearray())

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def detail(self) -> str:
        return self.report.detail

    def reached(self, step: Step) -> bool:
        """Return whether the guest reported this step."""
        return step.number in self._areas

    def __getitem__(self, step: Step) -> Any:
        """Return the value that a step returned."""
        assert self.reached(step), f"{step.function.short} was not reached: {self.report}"
        area, heap = self._areas[step.number]
        base = (self.guest.static.end + 7) // 8 * 8

        def read(at: int, size: int) -> bytes:
            return heap[at - base :][:size] if at >= base else area[at - step.place.at :][:size]

        return load(step.place.type, step.place.at, read)

    def take(self, stream: str, text: str) -> int | None:
        """Parse a printed line; return the number of a completed step, if any."""
        mark, digits = text[:1], text[1:]
        if stream != "stdout" or mark not in ("=", "+", "."):
            self.lines.append((stream, text))
            return None
        if mark == "=":
            data = bytes.fromhex(digits)
            self._current = (int.from_bytes(data[:4], "little"), data[4:], bytearray())
        elif mark == "+":
            self._current[2].extend(bytes.fromhex(digits))
        else:
            number, area, heap = self._current
            self._areas[number] = (area, bytes(heap))
            return number
        return None


@contextmanager
def _recording(called: set[str]) -> Iterator[None]:
    """Record which host functions are called by components linked in this context."""

    def recorded(name: str, function: HostFunction) -> HostFunction:
        def body(run: Any, *values: Any) -> Any:
            called.add(name)
            return function.body(run, *values)

        return replace(function, body=body)

    original = dict(FUNCTIONS)
    FUNCTIONS.update({name: recorded(name, function) for name, function in original.items()})
    try:
        yield
    finally:
        FUNCTIONS.update(original)


class Host:
    """An engine on an event loop of its own; `called` are the host functions that its guests have called.

    While `shim` is set, guests call the library through a table, as those of wit-component do.
    """

    def __init__(self, cache: Path) -> None:
        self.shim = False
        self.called: set[str] = set()
        self.loop = asyncio.new_event_loop()
        self.runner: engine.wasm.execution.runner.Runner = self.wait(self._start(cache))

    async def _start(self, cache: Path) -> engine.wasm.execution.runner.Runner:
        return engine.wasm.execution.runner.Runner(cache, PoolSettings(instances=8, warm=8, memory_mib=64))

    def close(self) -> None:
        self.wait(self.runner.aclose())
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the engine's loop."""
        return self.loop.run_until_complete(work)

    def programs(self, binary: bytes) -> tuple[LinkedComponent, ...]:
        """Compile and link a component for every kind of slot."""
        engines = [slots.engine(compilers(fast=True)[0]) for slots in self.runner.pool.slots]
        with _recording(self.called):
            return tuple(LinkedComponent(Component(each, binary), each, self.runner.runs) for each in engines)

    async def ask(self, guest: Guest, client: Client | None = None, **fields: Any) -> Answer:
        """Run a guest; `fields` are those of the resource, and its Doors."""
        client = client or Client()
        script, doors = fields.pop("script", None), fields.pop("doors", {})
        binary = weave(bytes(wat2wasm(guest.text(shim=self.shim))))
        live = engine.wasm.execution.runner.Guest(
            self.runner,
            Resource("api", "rust", Path("/"), **fields),
            artifact=ComponentArtifact(Path("/"), "", script),
            loaded=engine.wasm.execution.runner.LoadedComponent(self.programs(binary), ()),
            environment={"SVC_PROJECT": "test"},
            doors=doors,
        )
        answer = Answer(guest)
        client.start()

        def on_line(stream: Any, text: str) -> None:
            number = answer.take(stream, text)
            if number in client.then:
                client.then.pop(number)(client)

        exchange = CollectingExchange(client.target, body=client.body, disconnected=client.disconnected)
        request = GuestRequest(
            exchange=exchange,
            method=client.method,
            scheme=client.scheme,
            authority="api.localhost",
            target=client.target,
            headers=client.headers,
            env={"SVC_REQUEST_ID": "request-1", "TRACEPARENT": TRACEPARENT},
            on_line=on_line,
            max_body=client.max_body,
            on_notice=lambda level, text, grant: answer.lines.append((level, text)),
        )
        answer.report = await live.run(request)
        for step in guest.steps.values():
            self.called.add(step.function.key)
            if not answer.reached(step) and step.reported:
                break  # A function that ends the guest, or the last one before it failed.
        answer.status, answer.headers = exchange.status, exchange.headers
        answer.chunks = [part for part in exchange.parts if part]
        answer.ended = bool(exchange.ends) and exchange.ends[-1]
        return answer

    def run(self, guest: Guest, client: Client | None = None, **fields: Any) -> Answer:
        """Run a guest to its end."""
        return self.wait(self.ask(guest, client, **fields))
