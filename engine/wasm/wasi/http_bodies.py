"""Message bodies and the base classes of HTTP messages: `wasi:http/types@0.2` (source: 0.2.12)."""

from typing import Any, ClassVar

from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import InputBuffer, OutputBuffer
from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.http_fields import TYPES, Fields
from engine.wasm.wasi.io import InputStream, OutputStream, Pollable
from engine.wasm.wasi.ownership import ParentResource
from engine.wasm.wasi.registry import host, method, resource


@resource("incoming-body")
class IncomingBody(ParentResource):
    """A request or response body for the guest to read; its stream can be taken once."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: InputBuffer) -> None:
        super().__init__()
        self.flow = flow
        self.taken = False

    def drop(self, run: RunState) -> None:
        """Discard the unread rest of the body."""
        self.check_childless("an incoming-body was dropped before its input-stream")
        self.flow.discard()


@resource("future-trailers")
class FutureTrailers:
    """Trailers, available at the end of the body. This host never receives any."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: InputBuffer) -> None:
        self.flow = flow
        self.taken = False

    def ready(self) -> bool:
        """Return whether the body has ended."""
        return self.flow.ended


@resource("outgoing-body")
class OutgoingBody(ParentResource):
    """A body written by the guest. Dropping it unfinished marks the message as incomplete."""

    __slots__ = ("flow", "taken")

    def __init__(self, flow: OutputBuffer) -> None:
        super().__init__()
        self.flow = flow
        self.taken = False

    def drop(self, run: RunState) -> None:
        """Mark an unfinished message as broken."""
        self.check_childless("an outgoing-body was dropped before its output-stream")
        if not self.flow.finished and self.flow.broken is None:
            self.flow.broken = "unfinished"
            self.flow.changed()


class IncomingMessage(ParentResource):
    """A received request or response; its body can be taken once."""

    __slots__ = ("body",)
    NAME: ClassVar[str]

    def __init__(self, flow: InputBuffer) -> None:
        super().__init__()
        self.body: IncomingBody | None = IncomingBody(flow)

    def drop(self, run: RunState) -> None:
        """Discard the body if the guest never took it."""
        self.check_childless(f"an {self.NAME} was dropped before its headers")
        if self.body is not None:
            self.body.drop(run)


class OutgoingMessage(ParentResource):
    """A request or response under construction by the guest; its body can be taken once."""

    __slots__ = ("body", "headers")
    NAME: ClassVar[str]

    def __init__(self, headers: Fields) -> None:
        super().__init__()
        self.headers = headers
        self.body: OutputBuffer | None = None

    def attach_body(self, body: OutputBuffer) -> OutgoingBody:
        """Attach a buffer and return it as the body resource. Raises `Err` on the second call."""
        if self.body is not None:
            raise Err
        self.body = body
        return OutgoingBody(body)

    def drop(self, run: RunState) -> None:
        """Release a message that was not sent."""
        run.unsent_messages -= 1
        self.check_childless(f"an {self.NAME} was dropped before its headers")


@method(TYPES, "incoming-request", "consume")
@method(TYPES, "incoming-response", "consume")
def consume(run: RunState, message: IncomingMessage) -> IncomingBody:
    """Return the body. Raises `Err` on the second call."""
    body, message.body = message.body, None
    if body is None:
        raise Err
    return body


@method(TYPES, "outgoing-request", "headers")
@method(TYPES, "outgoing-response", "headers")
def headers(run: RunState, message: OutgoingMessage) -> Fields:
    """Return a read-only view of the header fields."""
    return Fields(message.headers.items, message)


def declared_length(fields: Fields) -> int | None:
    """Return the value of content-length, or `None`."""
    lengths = [value for name, value in fields.items if name == "content-length"]
    return int(lengths[-1]) if lengths else None


def finish_body(flow: OutputBuffer) -> None:
    """Mark a body as finished, or as broken if its length differs from content-length."""
    if flow.broken is not None:
        return
    if flow.expected is not None and flow.total != flow.expected:
        flow.broken = (flow.mismatch, flow.total)
    else:
        flow.finished = True
    flow.changed()


@method(TYPES, "incoming-body", "stream")
def body_stream(run: RunState, body: IncomingBody) -> InputStream:
    """Return the stream. Raises `Err` on the second call."""
    if body.taken:
        raise Err
    body.taken = True
    return InputStream(body.flow, body)


@host(TYPES, "[static]incoming-body.finish")
def body_finish(run: RunState, body: IncomingBody) -> FutureTrailers:
    """Stop reading a body; the unread rest is discarded."""
    body.check_childless("an incoming-body was finished before its input-stream was dropped")
    body.flow.discard()
    return FutureTrailers(body.flow)


@method(TYPES, "future-trailers", "subscribe")
@method(TYPES, "future-incoming-response", "subscribe")
def subscribe(run: RunState, future: Any) -> Pollable:
    """Return a pollable that becomes ready when `get` returns a result."""
    return Pollable(future)


@method(TYPES, "future-trailers", "get")
def trailers_get(run: RunState, trailers: FutureTrailers) -> Any:
    """Return `None` until the body has ended; then, once, empty trailers or the body's error."""
    if not trailers.flow.ended:
        return None
    if trailers.taken:
        return ("err", None)
    trailers.taken = True
    error = trailers.flow.error
    return ("ok", ("ok", None) if error is None else ("err", error))


@method(TYPES, "outgoing-body", "write")
def outgoing_write(run: RunState, body: OutgoingBody) -> OutputStream:
    """Return the stream. Raises `Err` on the second call."""
    if body.taken:
        raise Err
    body.taken = True
    return OutputStream(body.flow, body)


@host(TYPES, "[static]outgoing-body.finish")
def outgoing_finish(run: RunState, body: OutgoingBody, trailers: Fields | None) -> None:
    """Finish a body; trailers are not sent. Raises `Err` if its length differs from content-length."""
    body.check_childless("an outgoing-body was finished before its output-stream was dropped")
    if trailers is not None:
        trailers.drop(run)
        run.notice("WARN", "the guest set trailers; they are not sent")
    finish_body(body.flow)
    broken = body.flow.broken
    if broken is not None:
        raise Err(("connection-terminated", None) if broken == "closed" else broken)
