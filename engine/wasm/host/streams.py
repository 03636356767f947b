"""Bytes of messages: the response, bodies of outgoing requests, and input.

A channel is a number that the library gives to a message's body. Channel 0 of the inputs is the request body.
"""

from collections.abc import Iterable
from http import HTTPStatus

from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES
from engine.wasm.capi.host_functions import Suspend, Waitable, host
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import ResponseHead, RunState, Trap
from engine.wasm.host.requests import IDLE, settle_watches
from engine.wasm.outbound.messages import encode_error, parse_error, parse_fields

_HEAD, _END = 1, 2
_OPEN, _ENDED, _FAILED = 0, 1, 2
_BROKEN_BIT, _CLOCK_BIT = 19, 20
_CANCEL, _FORGET = 1, 2
_FOREVER = (1 << 64) - 1
_UNFINISHED = b"unfinished"
States = tuple[int, bytes]


@host("send", packed="arguments")
def send(run: RunState, channel: int, flags: int, head: bytes, data: bytes) -> int:
    """Store bytes of a body, the head of the response, and the end of a body.

    Returns the space for further bytes, whether the body is closed, and the clock. Raises Trap if the guest
    may not send them.
    """
    body = run.output(channel)
    if flags & _HEAD:
        run.head = _head(run, head, body)
    if data:
        if len(data) > body.room() and body.broken is None:
            raise Trap("it wrote more than was permitted")
        body.put(data)
    if flags & _END:
        if body.broken is None:
            body.end()
        del run.outputs[channel]
    return body.room() | (body.broken is not None) << _BROKEN_BIT | run.now() << _CLOCK_BIT


def _head(run: RunState, text: bytes, body: OutputBuffer) -> ResponseHead:
    """Return the head of the response. Raises Trap for a second or an invalid one."""
    if run.head is not None or run.refused is not None:
        raise Trap("a run answers one request")
    status, _, fields = text.partition(b"\0")
    if len(status) != 3 or not status.isdigit() or not b"200" <= status <= b"599":
        raise Trap("it sent an invalid status")
    headers = parse_fields(fields)
    if len({value for name, value in headers if name == b"content-length"}) > 1:
        raise Trap("its response has several values of content-length")
    return ResponseHead(int(status), headers, body)


@host("abort")
def abort(run: RunState, channel: int, reason: bytes) -> None:
    """End a body as incomplete, for a reason."""
    body = run.outputs.pop(channel, None)
    if body is not None and body.broken is None:
        body.end("unfinished" if reason == _UNFINISHED else parse_error(reason))


@host("refuse")
def refuse(run: RunState, error: bytes) -> None:
    """Store an error code instead of a response. Raises Trap after a response."""
    if run.head is not None or run.refused is not None:
        raise Trap("a run answers one request")
    run.refused = parse_error(error)


@host("read", packed="result")
def read(run: RunState, channel: int, limit: int) -> tuple[bytes, int]:
    """Return the bytes available now, and whether more may follow."""
    flow = run.inputs.get(channel)
    if flow is None:
        return b"", _ENDED
    data = flow.take(min(limit, MAX_PACKED_BYTES))
    return data, _OPEN if not flow.exhausted else _ENDED if flow.error is None else _FAILED


@host("error")
def error(run: RunState, channel: int) -> bytes:
    """Return the error code of an incomplete input."""
    flow = run.inputs.get(channel)
    return encode_error(flow.error) if flow is not None and flow.error is not None else b""


@host("close")
def close(run: RunState, channel: int, what: int) -> None:
    """Discard input, or cancel an outgoing request whose response was not taken."""
    if what == _CANCEL:
        future = run.pending.pop(channel, None)
        if future is not None:
            future.drop(run)
        return
    flow = run.inputs.get(channel)
    if flow is not None:
        flow.discard()
        if what == _FORGET and channel:
            del run.inputs[channel]


class _Ended:
    """The end of an input. That of one which the host does not know any more has come."""

    __slots__ = ("_flow",)

    def __init__(self, flow: object) -> None:
        self._flow = flow

    def ready(self) -> bool:
        return bool(getattr(self._flow, "ended", True))


_READY = _Ended(None)


def _source(run: RunState, text: bytes) -> Waitable:
    kind, channel = text[:1], int(text[1:])
    if kind == b"r":
        return run.inputs.get(channel, _READY)
    if kind == b"w":
        return run.outputs.get(channel, _READY)
    if kind == b"f":
        future: Waitable = run.pending.get(channel, _READY)
        return future
    return _Ended(run.inputs.get(channel))


def _states(run: RunState, sources: Iterable[Waitable]) -> States:
    """Return the clock, and a character for each source: ready, not ready, or a closed body."""
    states = [
        b"x" if getattr(each, "broken", None) is not None else b"1" if each.ready() else b"0"
        for each in sources
    ]
    return run.now(), b"".join(states)


def _parse(run: RunState, text: bytes) -> tuple[list[Waitable], int]:
    """Return the sources of a text, and how many of them are before the bar."""
    waited, _, reported = text.partition(b"|")
    first = waited.split()
    return [_source(run, each) for each in (*first, *reported.split())], len(first)


@host("ready")
def ready(run: RunState, text: bytes) -> States:
    """Return which sources are ready now."""
    return _states(run, _parse(run, text)[0])


@host("wait", blocking=True)
def wait(run: RunState, text: bytes, deadline: int) -> States | Suspend:
    """Wait until a source before the bar is ready, or for a deadline; return which sources are ready."""
    sources, count = _parse(run, text)
    waited = sources[:count]
    if deadline == _FOREVER and waited == [run.watches.get(IDLE)]:
        settle_watches(run, HTTPStatus.NOT_FOUND)
    if any(each.ready() for each in waited) or run.now() >= deadline:
        return _states(run, sources)
    return Suspend(waited, lambda: _states(run, sources), None if deadline == _FOREVER else deadline)
