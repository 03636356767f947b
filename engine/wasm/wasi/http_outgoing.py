"""Outgoing requests as guests see them: `wasi:http/types@0.2`, `wasi:http/outgoing-handler@0.2` (source:
0.2.12).

The network part is in `engine/wasm/outbound/http.py`.
"""

import re
from typing import Any

from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import InputBuffer, OutputBuffer
from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.http_bodies import (
    IncomingMessage,
    OutgoingBody,
    OutgoingMessage,
    declared_length,
)
from engine.wasm.wasi.http_fields import TYPES, Fields, Items, is_token
from engine.wasm.wasi.registry import getter, host, method, resource

_PATH = re.compile(r"[/?][!\"$-~]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_AUTHORITY = re.compile(r"(\[[0-9A-Za-z:.%]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:[0-9]*)?")


def is_path(text: str) -> bool:
    """Return whether a text is a valid path or query of a request target."""
    return _PATH.fullmatch(text) is not None


@resource("outgoing-request")
class OutgoingRequest(OutgoingMessage):
    """A request under construction by the guest."""

    __slots__ = ("authority", "method", "path", "scheme")
    NAME = "outgoing-request"

    def __init__(self, headers: Fields) -> None:
        super().__init__(headers)
        self.method: tuple[str, str | None] = ("get", None)
        self.path: str | None = None
        self.scheme: tuple[str, str | None] | None = None
        self.authority: str | None = None


@resource("request-options")
class RequestOptions:
    """Timeouts in nanoseconds; `None` selects the host's default."""

    __slots__ = ("between_bytes", "connect", "first_byte")

    def __init__(self) -> None:
        self.connect: int | None = None
        self.first_byte: int | None = None
        self.between_bytes: int | None = None


@resource("incoming-response")
class IncomingResponse(IncomingMessage):
    """A received response head, with its body."""

    __slots__ = ("headers", "status")
    NAME = "incoming-response"

    def __init__(self, status: int, headers: Items, flow: InputBuffer) -> None:
        super().__init__(flow)
        self.status = status
        self.headers = headers


@resource("future-incoming-response")
class FutureIncomingResponse:
    """A pending response; `result` becomes `("ok", IncomingResponse)` or `("err", error-code)`."""

    __slots__ = ("cancel", "result", "taken")

    def __init__(self) -> None:
        self.result: tuple[str, Any] | None = None
        self.taken = False
        self.cancel: Any = None

    def ready(self) -> bool:
        """Return whether the result is available."""
        return self.result is not None

    def settle(self, run: RunState, result: tuple[str, Any]) -> None:
        """Set the result. Only the first call has an effect."""
        if self.result is None:
            self.result = result
            run.waiting -= 1
            run.wake()

    def drop(self, run: RunState) -> None:
        """Cancel the request if the guest never took the response."""
        if self.result is None:
            self.result = ("err", ("connection-terminated", None))
            run.waiting -= 1
        if not self.taken and self.cancel is not None:
            run.on_loop(self.cancel)


@host(TYPES, "[constructor]outgoing-request")
def request_new(run: RunState, headers: Fields) -> OutgoingRequest:
    """Return a GET request with these headers."""
    run.start_message()
    headers.drop(run)
    return OutgoingRequest(headers)


@method(TYPES, "outgoing-request", "body")
def request_body(run: RunState, request: OutgoingRequest) -> OutgoingBody:
    """Return the body, once."""
    return request.attach_body(OutputBuffer(declared_length(request.headers), "HTTP-request-body-size"))


getter(TYPES, "outgoing-request", "method", "method")
getter(TYPES, "outgoing-request", "path-with-query", "path")
getter(TYPES, "outgoing-request", "scheme", "scheme")
getter(TYPES, "outgoing-request", "authority", "authority")
getter(TYPES, "incoming-response", "status", "status")


@method(TYPES, "outgoing-request", "set-method")
def set_method(run: RunState, request: OutgoingRequest, value: tuple[str, str | None]) -> None:
    """Set the method. Raises `Err` if a custom method is not a token."""
    if value[0] == "other" and not is_token(value[1] or ""):
        raise Err
    request.method = value


@method(TYPES, "outgoing-request", "set-path-with-query")
def set_path(run: RunState, request: OutgoingRequest, value: str | None) -> None:
    """Set path and query: visible ASCII that starts with `/` or `?`, or `*`. Raises `Err` otherwise."""
    if value and not (is_path(value) or value == "*"):
        raise Err
    request.path = value


@method(TYPES, "outgoing-request", "set-scheme")
def set_scheme(run: RunState, request: OutgoingRequest, value: tuple[str, str | None] | None) -> None:
    """Set the scheme. Raises `Err` if a custom scheme is invalid (RFC 3986 3.1)."""
    if value is not None and value[0] == "other" and not _SCHEME.fullmatch(value[1] or ""):
        raise Err
    request.scheme = value


@method(TYPES, "outgoing-request", "set-authority")
def set_authority(run: RunState, request: OutgoingRequest, value: str | None) -> None:
    """Set host and port (RFC 3986 3.2). Raises `Err` if invalid or with user information (RFC 9110 4.2.4)."""
    if value is not None and not _AUTHORITY.fullmatch(value):
        raise Err
    request.authority = value


@host(TYPES, "[constructor]request-options")
def options_new(run: RunState) -> RequestOptions:
    """Return options without timeouts."""
    return RequestOptions()


def _option(name: str, attribute: str) -> None:
    def getter(run: RunState, options: RequestOptions) -> int | None:
        value: int | None = getattr(options, attribute)
        return value

    def setter(run: RunState, options: RequestOptions, value: int | None) -> None:
        setattr(options, attribute, value)

    method(TYPES, "request-options", name)(getter)
    method(TYPES, "request-options", f"set-{name}")(setter)


_option("connect-timeout", "connect")
_option("first-byte-timeout", "first_byte")
_option("between-bytes-timeout", "between_bytes")


@method(TYPES, "incoming-response", "headers")
def response_headers(run: RunState, response: IncomingResponse) -> Fields:
    """Return a read-only view of the header fields."""
    return Fields(response.headers, response)


@method(TYPES, "future-incoming-response", "get")
def future_get(run: RunState, future: FutureIncomingResponse) -> Any:
    """Return `None` while pending; then, once, the response or the error."""
    if future.result is None:
        return None
    if future.taken:
        return ("err", None)
    future.taken = True
    return ("ok", future.result)


MAX_CONCURRENT_REQUESTS = 128
"""Maximum number of pending outgoing requests of one run."""


MAX_DESCRIPTION_CHARS = 200


def _description(request: OutgoingRequest) -> str:
    """Return method and URL of a request without its query."""
    name, other = request.method
    scheme = (request.scheme or ("HTTPS", None))[0].lower()
    path = (request.path or "/").partition("?")[0]
    return f"{other or name.upper()} {scheme}://{request.authority}{path}"[:MAX_DESCRIPTION_CHARS]


@host("wasi:http/outgoing-handler", "handle")
def handle(run: RunState, request: OutgoingRequest, options: RequestOptions | None) -> FutureIncomingResponse:
    """Send a request. Raises `Err` at once if `egress` denies it and the guest never took the body.

    If the guest took the body, the future reports the denial and writes to the body are discarded.
    StarlingMonkey continues to write the body after an error here, then awaits the future that it did not
    get. A closed stream would end its event loop.
    """
    request.check_childless("an outgoing-request was sent before its headers were dropped")
    run.unsent_messages -= 1
    run.last_call = _description(request)
    future = FutureIncomingResponse()
    run.waiting += 1
    try:
        if run.waiting > MAX_CONCURRENT_REQUESTS or len(run.tasks) >= MAX_CONCURRENT_REQUESTS:
            run.notice("WARN", f"a call failed: {MAX_CONCURRENT_REQUESTS} others were in progress")
            raise Err(("connection-limit-reached", None))
        run.fetch(run, request, options or RequestOptions(), future)
    except Err as refusal:
        future.settle(run, ("err", refusal.value))
        if request.body is None:
            raise
        request.body.discard()
    return future
