"""What goes into a run and what comes out of it: plain values between gateway and runner."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

Headers = list[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Listen = Callable[[Callable[[dict[str, Any]], bool] | None], None]
LineSink = Callable[[Literal["stdout", "stderr"], str], None]
NoticeSink = Callable[[Literal["INFO", "WARN", "ERROR"], str], None]


@dataclass(slots=True)
class Exchange:
    """One HTTP request on its way to a guest.

    `target` is path and query as the client sent them; `headers` are lower-case names with raw values,
    hop-by-hop ones already removed. `receive` and `send` are ASGI's: the runner pulls the body from the
    one and pushes `http.response.*` messages to the other. `env` is added to the guest's environment for
    this run. `on_line` gets each line that the guest prints, as it is printed, and `on_notice` what the
    platform has to say about the run (a denied call), both on the event loop's thread. `gone` is done when
    the client is known to have left, even while nobody takes what it sent before. `has_body` says whether a
    body may follow; without it, the header fields do. `listen` is a way around `receive`, where there is one:
    it has a function called with each message as it comes, until this returns false; `None` ends that.
    """

    method: str
    scheme: str
    authority: str
    target: str
    headers: Headers
    receive: Receive
    send: Send
    env: dict[str, str]
    on_line: LineSink
    max_body: int
    on_notice: NoticeSink = lambda level, text: None
    has_body: bool | None = None
    gone: "asyncio.Future[None] | None" = None
    listen: Listen | None = None


Outcome = Literal[
    "ok",
    "guest-failed",
    "memory-limit",
    "run-limit",
    "body-too-large",
    "overloaded",
    "client-gone",
    "stopping",
]


@dataclass(frozen=True, slots=True)
class RunReport:
    """How a run went.

    `detail` explains an outcome other than `ok` in the guest's terms (trap, exit status, exception); it
    is for the Project's owner, never for a caller of the service. `status` is the response's, `None` when
    no head was sent; then the caller owes the client a response, else (outcome not `ok`) a cut
    connection, unless `complete`: then the whole response was sent and only what came after it failed.
    Times in nanoseconds, sizes in bytes; `peak_memory` is `None` when the instance was stopped before it
    could be read.
    """

    outcome: Outcome
    detail: str
    status: int | None
    wall_ns: int
    compute_ns: int
    peak_memory: int | None
    bytes_in: int
    bytes_out: int
    complete: bool = False
