"""Incoming requests and the guest's responses: `wasi:http/types@0.2` (source: 0.2.12)."""

from typing import Any

from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import ResponseHead, RunState, Trap
from engine.wasm.wasi.http_bodies import (
    IncomingMessage,
    OutgoingBody,
    OutgoingMessage,
    declared_length,
    finish_body,
)
from engine.wasm.wasi.http_fields import TYPES, Fields
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import getter, host, method, resource

_METHODS = {
    name: (name.lower(), None)
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
}
_NOT_MODIFIED = 304
_SCHEMES = {"http": ("HTTP", None), "https": ("HTTPS", None)}


@resource("incoming-request")
class IncomingRequest(IncomingMessage):
    """The request that a run answers."""

    __slots__ = ()
    NAME = "incoming-request"


@resource("response-outparam")
class ResponseOutparam:
    """The destination of a run's response."""

    __slots__ = ()


@resource("outgoing-response")
class OutgoingResponse(OutgoingMessage):
    """A response under construction by the guest."""

    __slots__ = ("status",)
    NAME = "outgoing-response"

    def __init__(self, headers: Fields) -> None:
        super().__init__(headers)
        self.status = 200


def _body_of(run: RunState, response: OutgoingResponse) -> OutputBuffer:
    """Return a buffer of the declared length. For HEAD and 304, content-length describes another response."""
    announces_another = run.request.method == "HEAD" or response.status == _NOT_MODIFIED
    return OutputBuffer(None if announces_another else declared_length(response.headers))


@method(TYPES, "incoming-request", "method")
def request_method(run: RunState, request: IncomingRequest) -> tuple[str, str | None]:
    """Return the method."""
    name = run.request.method
    return _METHODS.get(name, ("other", name))


@method(TYPES, "incoming-request", "path-with-query")
def request_path(run: RunState, request: IncomingRequest) -> str:
    """Return path and query as sent by the client."""
    return run.request.target


@method(TYPES, "incoming-request", "scheme")
def request_scheme(run: RunState, request: IncomingRequest) -> tuple[str, str | None]:
    """Return the scheme of the server's public address."""
    name = run.request.scheme
    return _SCHEMES.get(name, ("other", name))


@method(TYPES, "incoming-request", "authority")
def request_authority(run: RunState, request: IncomingRequest) -> str:
    """Return the host requested by the client."""
    return run.request.authority


@method(TYPES, "incoming-request", "headers")
def request_headers(run: RunState, request: IncomingRequest) -> Fields:
    """Return a read-only view of the header fields."""
    return Fields([(name.decode("latin-1"), value) for name, value in run.request.headers], request)


@host(TYPES, "[static]response-outparam.set")
def outparam_set(run: RunState, outparam: ResponseOutparam, response: tuple[str, Any]) -> None:
    """Set the response, or an error code."""
    side, value = response
    if side == "err":
        run.refused = value
        return
    value.check_childless("an outgoing-response was given before its headers were dropped")
    run.unsent_messages -= 1
    body = value.body
    if body is None:
        body = _body_of(run, value)
        finish_body(body)
    run.head = ResponseHead(value.status, value.headers.items, body)


@method(TYPES, "response-outparam", "send-informational")
def outparam_send_informational(
    run: RunState, outparam: ResponseOutparam, status: int, headers: Fields
) -> None:
    """Reject: informational responses are not supported. Raises `Err`."""
    headers.drop(run)
    if not 100 <= status <= 199:
        raise Err(("HTTP-protocol-error", None))
    raise Err(("internal-error", "informational responses are not supported"))


@host(TYPES, "[constructor]outgoing-response")
def response_new(run: RunState, headers: Fields) -> OutgoingResponse:
    """Return a response with these headers and status 200."""
    run.start_message()
    headers.drop(run)
    return OutgoingResponse(headers)


getter(TYPES, "outgoing-response", "status-code", "status")


@method(TYPES, "outgoing-response", "set-status-code")
def response_set_status(run: RunState, response: OutgoingResponse, status: int) -> None:
    """Set the status, 200 to 599; the platform sends interim responses itself. Raises `Err` otherwise."""
    if not 200 <= status <= 599:
        raise Err
    response.status = status


@method(TYPES, "outgoing-response", "body")
def response_body(run: RunState, response: OutgoingResponse) -> OutgoingBody:
    """Return the body, once."""
    return response.attach_body(_body_of(run, response))


@host(TYPES, "http-error-code")
def http_error_code(run: RunState, error: IoError) -> Any:
    """Return the HTTP error code of a failed stream, or `None`."""
    return error.code


def new_request(run: RunState) -> tuple[IncomingRequest, ResponseOutparam]:
    """Return the two arguments of `incoming-handler.handle` for a run. Raises Trap on the second request."""
    if run.head is not None:
        raise Trap("a run answers one request")
    return IncomingRequest(run.body), ResponseOutparam()
