"""Incoming requests and bodies, and the response to them: `wasi:http/types@0.2` (source: 0.2.12)."""

from typing import Any

from engine.wasm.codec import Err
from engine.wasm.run import ResponseHead, Run, Trap
from engine.wasm.streams import Inflow, Outflow
from engine.wasm.wasi.family import Parent
from engine.wasm.wasi.http_fields import TYPES, Fields
from engine.wasm.wasi.io import InputStream, IoError, OutputStream, Pollable
from engine.wasm.wasi.registry import host, method, resource

_METHODS = {
    name: (name.lower(), None)
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
}
_NOT_MODIFIED = 304
_SCHEMES = {"http": ("HTTP", None), "https": ("HTTPS", None)}


@resource("incoming-body")
class IncomingBody(Parent):
    """A body on its way to the guest; its stream can be taken once."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: Inflow) -> None:
        super().__init__()
        self.flow = flow
        self.taken = False

    def drop(self, run: Run) -> None:
        """Let go of what was not read."""
        self.check_childless("an incoming-body was dropped before its input-stream")
        self.flow.discard()


@resource("incoming-request")
class IncomingRequest(Parent):
    """The request of a run."""

    __slots__ = ("body",)

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.body: IncomingBody | None = IncomingBody(run.body)

    def drop(self, run: Run) -> None:
        """Let go of a body that was never asked for."""
        self.check_childless("an incoming-request was dropped before its headers")
        if self.body is not None:
            self.body.drop(run)


@resource("future-trailers")
class FutureTrailers:
    """Trailers, once the body is over. This host receives none."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: Inflow) -> None:
        self.flow = flow
        self.taken = False

    def ready(self) -> bool:
        """Whether the body is over."""
        return self.flow.ended


@resource("response-outparam")
class ResponseOutparam:
    """The one place where a run's response goes."""

    __slots__ = ()


@resource("outgoing-body")
class OutgoingBody(Parent):
    """A body on its way from the guest; it must be finished, or the message counts as broken."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: Outflow) -> None:
        super().__init__()
        self.flow = flow
        self.taken = False

    def drop(self, run: Run) -> None:
        """Break a message that was not finished."""
        self.check_childless("an outgoing-body was dropped before its output-stream")
        if not self.flow.finished and self.flow.broken is None:
            self.flow.broken = "unfinished"
            self.flow.changed()


@resource("outgoing-response")
class OutgoingResponse(Parent):
    """A response that the guest is making."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, headers: Fields) -> None:
        super().__init__()
        self.headers = headers
        self.status = 200
        self.body: Outflow | None = None

    def drop(self, run: Run) -> None:
        """Forget a response that was not given."""
        run.unsent -= 1
        self.check_childless("an outgoing-response was dropped before its headers")


def announced_length(fields: Fields) -> int | None:
    """Return the value of content-length, if there is one."""
    lengths = [value for name, value in fields.items if name == "content-length"]
    return int(lengths[-1]) if lengths else None


def _body_of(run: Run, response: OutgoingResponse) -> Outflow:
    """Return the body to fill: as long as content-length says, unless that tells of another answer."""
    announces_another = run.exchange.method == "HEAD" or response.status == _NOT_MODIFIED
    return Outflow(None if announces_another else announced_length(response.headers))


def _end(flow: Outflow) -> None:
    """End a body: whole, or broken when it is not as long as announced or broken already."""
    if flow.broken is not None:
        return
    if flow.expected is not None and flow.total != flow.expected:
        flow.broken = (flow.mismatch, flow.total)
    else:
        flow.finished = True
    flow.changed()


@method(TYPES, "incoming-request", "method")
def request_method(run: Run, request: IncomingRequest) -> tuple[str, str | None]:
    """Return the method."""
    name = run.exchange.method
    return _METHODS.get(name, ("other", name))


@method(TYPES, "incoming-request", "path-with-query")
def request_path(run: Run, request: IncomingRequest) -> str:
    """Return path and query as the client sent them."""
    return run.exchange.target


@method(TYPES, "incoming-request", "scheme")
def request_scheme(run: Run, request: IncomingRequest) -> tuple[str, str | None]:
    """Return the scheme of the front end's address."""
    name = run.exchange.scheme
    return _SCHEMES.get(name, ("other", name))


@method(TYPES, "incoming-request", "authority")
def request_authority(run: Run, request: IncomingRequest) -> str:
    """Return the host that the client asked for."""
    return run.exchange.authority


@method(TYPES, "incoming-request", "headers")
def request_headers(run: Run, request: IncomingRequest) -> Fields:
    """Return a read-only view of the header fields."""
    return Fields([(name.decode("latin-1"), value) for name, value in run.exchange.headers], request)


@method(TYPES, "incoming-request", "consume")
def request_consume(run: Run, request: IncomingRequest) -> IncomingBody:
    """Return the body, once."""
    body, request.body = request.body, None
    if body is None:
        raise Err
    return body


@method(TYPES, "incoming-body", "stream")
def body_stream(run: Run, body: IncomingBody) -> InputStream:
    """Return the stream, once."""
    if body.taken:
        raise Err
    body.taken = True
    return InputStream(body.flow, body)


@host(TYPES, "[static]incoming-body.finish")
def body_finish(run: Run, body: IncomingBody) -> FutureTrailers:
    """End the reading of a body; what was not read is thrown away."""
    body.check_childless("an incoming-body was finished before its input-stream was dropped")
    body.flow.discard()
    return FutureTrailers(body.flow)


@method(TYPES, "future-trailers", "subscribe")
def trailers_subscribe(run: Run, trailers: FutureTrailers) -> Pollable:
    """Return a pollable that is ready when `get` has an answer."""
    return Pollable(trailers)


@method(TYPES, "future-trailers", "get")
def trailers_get(run: Run, trailers: FutureTrailers) -> Any:
    """Return `None` while the body goes on; then, once, that there are no trailers or why it broke."""
    if not trailers.flow.ended:
        return None
    if trailers.taken:
        return ("err", None)
    trailers.taken = True
    error = trailers.flow.error
    return ("ok", ("ok", None) if error is None else ("err", error))


@host(TYPES, "[static]response-outparam.set")
def outparam_set(run: Run, outparam: ResponseOutparam, response: tuple[str, Any]) -> None:
    """Give the response, or an error code instead of one."""
    side, value = response
    if side == "err":
        run.refused = value
        return
    value.check_childless("an outgoing-response was given before its headers were dropped")
    run.unsent -= 1
    body = value.body
    if body is None:
        body = _body_of(run, value)
        _end(body)
    run.head = ResponseHead(value.status, value.headers.items, body)


@method(TYPES, "response-outparam", "send-informational")
def outparam_send_informational(run: Run, outparam: ResponseOutparam, status: int, headers: Fields) -> None:
    """Refuse: informational responses are not sent."""
    headers.drop(run)
    if not 100 <= status <= 199:
        raise Err(("HTTP-protocol-error", None))
    raise Err(("internal-error", "informational responses are not supported"))


@host(TYPES, "[constructor]outgoing-response")
def response_new(run: Run, headers: Fields) -> OutgoingResponse:
    """Return a response with these headers and status 200."""
    run.begin_message()
    headers.drop(run)
    return OutgoingResponse(headers)


@method(TYPES, "outgoing-response", "status-code")
def response_status(run: Run, response: OutgoingResponse) -> int:
    """Return the status."""
    return response.status


@method(TYPES, "outgoing-response", "set-status-code")
def response_set_status(run: Run, response: OutgoingResponse, status: int) -> None:
    """Set the status: 200 to 599, since the platform speaks the interim ones."""
    if not 200 <= status <= 599:
        raise Err
    response.status = status


@method(TYPES, "outgoing-response", "headers")
def response_headers(run: Run, response: OutgoingResponse) -> Fields:
    """Return a read-only view of the header fields."""
    return Fields(response.headers.items, response)


@method(TYPES, "outgoing-response", "body")
def response_body(run: Run, response: OutgoingResponse) -> OutgoingBody:
    """Return the body, once."""
    if response.body is not None:
        raise Err
    response.body = _body_of(run, response)
    return OutgoingBody(response.body)


@method(TYPES, "outgoing-body", "write")
def outgoing_write(run: Run, body: OutgoingBody) -> OutputStream:
    """Return the stream, once."""
    if body.taken:
        raise Err
    body.taken = True
    return OutputStream(body.flow, body)


@host(TYPES, "[static]outgoing-body.finish")
def outgoing_finish(run: Run, body: OutgoingBody, trailers: Fields | None) -> None:
    """End a body properly; an announced length that was not met is an error. Trailers are not sent."""
    body.check_childless("an outgoing-body was finished before its output-stream was dropped")
    if trailers is not None:
        trailers.drop(run)
        run.notice("WARN", "the guest set trailers; they are not sent")
    _end(body.flow)
    broken = body.flow.broken
    if broken is not None:
        raise Err(("connection-terminated", None) if broken == "closed" else broken)


@host(TYPES, "http-error-code")
def http_error_code(run: Run, error: IoError) -> Any:
    """Return the HTTP error behind a failed stream, if there is one."""
    return error.code


def new_request(run: Run) -> tuple[IncomingRequest, ResponseOutparam]:
    """Return the two arguments of `incoming-handler.handle` for a run."""
    if run.head is not None:
        raise Trap("a run answers one request")
    return IncomingRequest(run), ResponseOutparam()
