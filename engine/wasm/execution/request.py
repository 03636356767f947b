"""The input and the result of a run: values that the gateway, the runner and the guest exchange."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from engine.door import Session
from engine.grant import Grant
from engine.http.exchange import Exchange, Headers
from engine.trace import Call, CallKind, RequestTrace

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
    "quota-exceeded", "client-gone", "aborted", "stopping",
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
