"""Outgoing requests of guests, and the responses to them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.wasm.execution.buffers import InputBuffer, OutputBuffer
from engine.wasm.execution.run_state import RunState

MAX_CONCURRENT_REQUESTS = 128
"""Maximum number of pending outgoing requests of one run."""
FORBIDDEN = frozenset({
    b"connection", b"host", b"http2-settings", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"transfer-encoding", b"upgrade",
})  # fmt: skip
"""Connection-level field names, which only the host sets."""
_PATH = re.compile(r"[/?][!\"$-~]*")
Items = list[tuple[bytes, bytes]]
ErrorCode = tuple[str, Any]
"""A case of wasi:http's `error-code`, with its payload."""


def is_path(text: str) -> bool:
    """Return whether a text is a valid path or query of a request target."""
    return _PATH.fullmatch(text) is not None


class RequestRefused(Exception):
    """A request that fails at once; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request as the guest sent it. Timeouts are in nanoseconds; `None` selects the host's default.

    `path` has the query, and is empty for "/". `body` is None for a request without one.
    """

    method: str
    scheme: str
    authority: str
    path: str
    headers: Items
    body: OutputBuffer | None = None
    connect_timeout: int | None = None
    first_byte_timeout: int | None = None
    between_bytes_timeout: int | None = None


@dataclass(frozen=True, slots=True)
class IncomingResponse:
    """A received response head, with its body."""

    status: int
    headers: Items
    body: InputBuffer


class FutureResponse:
    """A pending response, from `origin` if that is set; `result` becomes the response, or an error code."""

    __slots__ = ("cancel", "origin", "result")

    def __init__(self, origin: str = "") -> None:
        self.origin = origin
        self.result: IncomingResponse | ErrorCode | None = None
        self.cancel: Callable[[], Any] | None = None

    def ready(self) -> bool:
        return self.result is not None

    def settle(self, run: RunState, result: IncomingResponse | ErrorCode) -> None:
        """Set the result. Only the first call has an effect."""
        if self.result is None:
            self.result = result
            if isinstance(result, tuple):
                if len(run.failures) == MAX_CONCURRENT_REQUESTS:
                    run.failures.clear()
                run.failures[self.origin] = result[0]
            run.waiting -= 1
            run.wake()

    def drop(self, run: RunState) -> None:
        """Cancel the request, whose response the guest will not take."""
        if self.result is None:
            self.result = ("connection-terminated", None)
            run.waiting -= 1
        if self.cancel is not None:
            run.on_loop(self.cancel)
