"""The request, the state and the report of one run.

The state is everything that one guest instance may see or change. `execution.py` drives it. Host functions
receive it as their first argument.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from engine.door import Caller, Session
from engine.grant import Grant
from engine.http.exchange import Exchange, Headers
from engine.trace import Call, CallKind, RequestTrace
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.values import ScratchBuffer
from engine.wasm.execution.buffers import InputBuffer, LineSplitter, OutputBuffer

LineSink = Callable[[Literal["stdout", "stderr"], str], None]
NoticeSink = Callable[[Literal["INFO", "WARN", "ERROR"], str, Grant | None], None]


@dataclass(slots=True, kw_only=True)
class GuestRequest:
    """One HTTP request for a guest.

    `exchange` has the body and takes the response; the other fields are what the guest sees of the head.
    `target` is path and query as the client sent them. `headers` have lower-case names, without hop-by-hop
    fields. `env` is added to the guest's environment. `max_body` is in bytes. `on_line` is called with each
    line that the guest prints, and `on_notice` with messages of the platform about the run and what would
    allow a denied action, both on the event loop's thread. `trace` has the calls of the request, and is None
    before the first. `time_shift_ns` is added to the guest's wall clock.
    """

    exchange: Exchange
    method: str
    scheme: str
    authority: str
    target: str
    headers: Headers
    env: dict[str, str]
    max_body: int
    on_line: LineSink
    on_notice: NoticeSink = lambda level, text, grant: None
    trace: RequestTrace | None = None
    time_shift_ns: int = 0
    session: Session = field(default_factory=Session)

    def begin_call(self, kind: CallKind, name: str) -> Call | None:
        """Start a call of the trace; return None if it has the maximum of calls."""
        trace = self.trace
        if trace is None:
            trace = self.trace = RequestTrace()
        return trace.begin(kind, name)


Outcome = Literal[
    "ok", "guest-failed", "unavailable", "memory-limit", "run-limit", "body-too-large", "overloaded",
    "quota-exceeded", "client-gone", "aborted", "stopping", "unknown-host",
]  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RunReport:
    """The result of a run. Times are in nanoseconds, sizes in bytes.

    `detail` explains an outcome other than `ok` (trap, exit status, exception). It is for the owner of the
    project, never for a caller. `status` is that of the response, `None` if no head was sent: the caller
    then sends a response, or aborts the exchange if the outcome is not `ok` and the response is not
    `complete`. `peak_memory` is that of all memories at the end of the handler. For a run that
    ended in another way it is what was touched first, `None` if that was not measured.
    """

    outcome: Outcome
    detail: str = ""
    status: int | None = None
    wall_ns: int = 0
    compute_ns: int = 0
    peak_memory: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    complete: bool = False


def encode_environment(variables: Mapping[str, str]) -> bytes:
    """Return names and values, each with a zero byte at its end. Zero bytes in values are left out."""
    parts = [part for item in variables.items() for part in item]
    text = "\0".join([*parts, ""]) if parts else ""
    if text.count("\0") > len(parts):
        text = "\0".join([*(part.replace("\0", "") for part in parts), ""])
    return text.encode()


MAX_NOTICES = 20
MAX_CHANNELS = 65_536
"""Maximum number of message bodies of a guest in each direction: each takes some 200 bytes of memory."""
MAX_HELD_BYTES = 64 << 20
"""Maximum bytes that the host stores for a guest: unread responses, and unfinished requests to Doors."""


class GuestExit(Exception):
    """The guest called `wasi:cli/exit`. `status` is None if the call only said that the program failed."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"the guest exited with {'an error' if status is None else f'status {status}'}")
        self.status = status


class Trap(Exception):
    """The guest broke a rule of an interface; the text names the rule."""


class EngineFailed(Trap):
    """The JavaScript engine ended a handler with an error that its code cannot catch."""


@dataclass(slots=True)
class ResponseHead:
    """The head of a response: status and header fields, as the guest set them."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: OutputBuffer


class RunState:
    """The state of one run. Times are nanoseconds of the run's own clock, which starts at 1.

    `inputs` and `outputs` are the bodies of messages by channel, `pending` the outgoing requests whose
    responses the guest has not taken.
    """

    def __init__(
        self,
        request: GuestRequest,
        environment: bytes,
        fetch: Callable[..., None],
        script: str | None,
        *,
        has_body: bool,
        call_door: Callable[..., Any],
        wake: Callable[[], None],
    ) -> None:
        self.context = 0
        self.scratch = ScratchBuffer()
        self.request = request
        self.environment = environment
        self.fetch = fetch
        self.call_door = call_door
        self.script = script
        self.started_ns = time.monotonic_ns()
        self.failure: BaseException | None = None
        self.wait: Suspend | None = None
        self.resume: Callable[[], bool] | None = None
        self.body = InputBuffer(ended=not has_body)
        self.inputs: dict[int, InputBuffer] = {0: self.body}
        self.outputs: dict[int, OutputBuffer] = {}
        self.pending: dict[int, Any] = {}
        self.watches: dict[str, Any] = {}
        """Responses that wait for the client's disconnect, by path."""
        self.later: dict[str, Any] = {}
        """Responses of Doors that the guest asks for when it wants to wait, by key."""
        self.later_keys = count()
        self.offloaded = False
        """Whether the next poll, or the current one, is in a worker thread."""
        self.disconnected = False
        self.head: ResponseHead | None = None
        self.refused: Any = None
        self.lines: deque[tuple[str, str]] = deque()
        self.printed: dict[str, LineSplitter] = {}
        self.actions: deque[Callable[[], None]] = deque()
        self.notices: deque[tuple[Literal["INFO", "WARN", "ERROR"], str, Grant | None]] = deque()
        self.reported: set[str] = set()
        self.caller: Caller | None = None
        """The caller as Doors see it, set at the first call of a Door."""
        self.last_call = ""
        """The latest request to a server or a Door, without its query: failures name it."""
        self.failures: dict[str, str] = {}  # Error codes of failed calls, by origin.
        self.door_unavailable = False
        """Whether the latest Door that answered is temporarily unavailable."""
        self.waiting = 0
        """Outbound HTTP requests without a response."""
        self.held_bytes = 0
        """Bytes that the host stores for the guest."""
        self.deadline_ns = 1 << 63
        """The time of `time.monotonic_ns` at which the run is stopped."""
        self.memory_limit = 4 << 30
        self.door_cpu_ns = 0
        """CPU time that Doors used for the run, beside what polls of the guest measure."""
        self.tasks: set[asyncio.Future[Any]] = set()
        self.wake = wake

    def output(self, channel: int) -> OutputBuffer:
        """Return the body that the guest writes on a channel, a new one for a new channel.

        Raises Trap above `MAX_CHANNELS`.
        """
        body = self.outputs.get(channel)
        if body is None:
            if len(self.outputs) >= MAX_CHANNELS:
                raise Trap(f"it writes more than {MAX_CHANNELS} messages at once")
            body = self.outputs[channel] = OutputBuffer()
        return body

    def is_ready(self) -> bool:
        """Return whether the wait of the guest is over."""
        wait = self.wait
        if wait is None or any(source.ready() for source in wait.sources):
            return True
        return wait.deadline is not None and self.now() >= wait.deadline

    def add_task(self, task: "asyncio.Future[Any]") -> None:
        """Register a task, which is canceled at the end of the run."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def now(self) -> int:
        """Return nanoseconds since the run began."""
        return time.monotonic_ns() - self.started_ns + 1

    def notice(self, level: Literal["INFO", "WARN", "ERROR"], text: str, grant: Grant | None = None) -> None:
        """Queue a notice for the project's owner: each text once, at most `MAX_NOTICES` of a run.

        `grant` is what would allow a denied action.
        """
        if len(self.reported) < MAX_NOTICES and text not in self.reported:
            self.reported.add(text)
            self.notices.append((level, text, grant))

    def lines_of(self, stream: Literal["stdout", "stderr"]) -> LineSplitter:
        """Return the line splitter of an output stream."""
        if stream not in self.printed:
            self.printed[stream] = LineSplitter(stream, self.lines)
        return self.printed[stream]

    def on_loop(self, action: Callable[[], None]) -> None:
        """Call `action` on the event loop's thread, soon after the guest yields."""
        self.actions.append(action)

    def close(self) -> None:
        """Cancel the tasks and drop all references, so that no cycle waits for the garbage collector."""
        for task in self.tasks:
            task.cancel()
        self.wake = lambda: None
        self.wait = self.resume = self.body.on_drained = None
        for body in self.outputs.values():
            body.on_change = None
        self.tasks.clear()
        self.actions.clear()
        self.inputs.clear()
        self.outputs.clear()
        self.pending.clear()
        self.watches.clear()
        self.later.clear()
