"""`wasi:io@0.2`: errors, pollables, streams (source: wasi:io 0.2.12, `package.wit`)."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import MAX_LIST_BYTES, InputBuffer
from engine.wasm.execution.run_state import EngineFailed, RunState, Trap
from engine.wasm.wasi.ownership import ChildResource, ParentResource
from engine.wasm.wasi.registry import getter, host, method, resource

STREAMS = "wasi:io/streams"
MAX_POLLABLES = 16_384
"""Maximum number of pollables in one call: checking that many takes the host about 10 ms."""
ENGINE_FAILED = b"ERROR: no fetch-event handler triggered, was one registered?"
"""The body that StarlingMonkey writes when its own code has ended a handler."""
_deadline = attrgetter("deadline")
_T = TypeVar("_T")


@resource("error")
class IoError:
    """The error of a failed stream; `code` is a wasi:http error-code, if known."""

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: Any = None) -> None:
        self.text = text
        self.code = code


getter("wasi:io/error", "error", "to-debug-string", "text")


@resource("pollable")
class Pollable:
    """A wait condition: a `deadline` in the run's nanoseconds, or a `source` that becomes ready."""

    __slots__ = ("deadline", "source")

    def __init__(self, source: Any = None, deadline: int | None = None) -> None:
        self.source = source
        self.deadline = deadline


class BoundPollable:
    """A pollable bound to its run's clock, as `Suspend` needs it."""

    __slots__ = ("deadline", "run", "source")

    def __init__(self, run: RunState, pollable: Pollable) -> None:
        self.run = run
        self.source = pollable.source
        self.deadline = pollable.deadline

    def ready(self) -> bool:
        """Return whether the deadline has passed or the source is ready."""
        if self.deadline is not None:
            return self.run.now() >= self.deadline
        return bool(self.source is None or self.source.ready())


@resource("input-stream")
class InputStream(ChildResource):
    """A guest's view of an `InputBuffer`; `failed` is set once the guest received the error."""

    __slots__ = ("failed", "flow")

    def __init__(self, flow: InputBuffer, parent: ParentResource | None = None) -> None:
        super().__init__(parent)
        self.flow = flow
        self.failed = False

    def drop(self, run: RunState) -> None:
        """Discard all further input."""
        self.detach()
        self.flow.discard()


@resource("output-stream")
class OutputStream(ChildResource):
    """A guest's view of an `OutputBuffer` or a `LineSplitter`.

    `permit` is the size allowed by the last check-write; `failed` is set once the guest received the error.
    """

    __slots__ = ("failed", "flow", "permit")

    def __init__(self, flow: Any, parent: ParentResource | None = None) -> None:
        super().__init__(parent)
        self.flow = flow
        self.permit = 0
        self.failed = False

    def drop(self, run: RunState) -> None:
        """Detach from the body; `outgoing-body.finish` completes it."""
        self.detach()


@method("wasi:io/poll", "pollable", "ready")
def ready(run: RunState, pollable: Pollable) -> bool:
    """Return whether a wait would return at once."""
    return BoundPollable(run, pollable).ready()


@method("wasi:io/poll", "pollable", "block", blocking=True)
def block(run: RunState, pollable: Pollable) -> Suspend | None:
    """Wait for one pollable."""
    source = BoundPollable(run, pollable)
    return None if source.ready() else Suspend([source], lambda: None)


@host("wasi:io/poll", "poll", blocking=True)
def poll(run: RunState, pollables: list[Pollable]) -> Suspend | list[int]:
    """Wait until one is ready; return the positions of all that are. Raises Trap for an empty list."""
    if not pollables:
        raise Trap("poll of an empty list, a wait without an end")
    if len(pollables) > MAX_POLLABLES:
        raise Trap(f"poll was called with more than {MAX_POLLABLES} pollables")
    sources = [BoundPollable(run, pollable) for pollable in pollables]

    def positions() -> list[int]:
        return [i for i, source in enumerate(sources) if source.ready()]

    return positions() or Suspend(_distinct_sources(sources), positions)


def _distinct_sources(sources: list[BoundPollable]) -> list[BoundPollable]:
    """Return the pollables to check while waiting: each source once, and only the earliest deadline."""
    watched = {id(each.source): each for each in sources if each.deadline is None}
    timed = [each for each in sources if each.deadline is not None]
    return [*watched.values(), *([min(timed, key=_deadline)] if timed else [])]


def _stream_error(stream: InputStream | OutputStream, code: Any) -> Err:
    """Return a stream's closing error: the cause (`code`) the first time, `closed` afterwards."""
    if stream.failed or code in (None, "closed"):
        return Err(("closed", None))
    stream.failed = True
    return Err(("last-operation-failed", IoError(f"HTTP error: {code[0]}", code)))


def take(stream: InputStream, limit: int) -> bytes:
    """Return up to `limit` available bytes. Raises `Err` at the end of the stream."""
    flow = stream.flow
    data = flow.take(limit)
    if not data and flow.exhausted:
        raise _stream_error(stream, flow.error)
    return data


def when_ready(stream: InputStream, limit: int, finish: Callable[[], _T]) -> Suspend | _T:
    """Call `finish` now if the stream is ready or `limit` is 0; otherwise suspend until it is ready."""
    if limit and not stream.flow.ready():
        return Suspend([stream.flow], finish)
    return finish()


@method(STREAMS, "input-stream", "read")
def read(run: RunState, stream: InputStream, limit: int) -> bytes:
    """Return the bytes available now, possibly none."""
    return take(stream, min(limit, MAX_LIST_BYTES))


@method(STREAMS, "input-stream", "blocking-read", blocking=True)
def blocking_read(run: RunState, stream: InputStream, limit: int) -> Suspend | bytes:
    """Return at least one byte. Raises `Err` at the end of the stream."""
    return when_ready(stream, limit, lambda: read(run, stream, limit))


@method(STREAMS, "input-stream", "skip")
def skip(run: RunState, stream: InputStream, limit: int) -> int:
    """Discard up to `limit` available bytes; return their number."""
    return len(take(stream, limit))


@method(STREAMS, "input-stream", "blocking-skip", blocking=True)
def blocking_skip(run: RunState, stream: InputStream, limit: int) -> Suspend | int:
    """Discard at least one byte; return their number. Raises `Err` at the end of the stream."""
    return when_ready(stream, limit, lambda: skip(run, stream, limit))


@method(STREAMS, "input-stream", "subscribe")
@method(STREAMS, "output-stream", "subscribe")
def subscribe(run: RunState, stream: InputStream | OutputStream) -> Pollable:
    """Return a pollable: ready when bytes can be read, when a write is permitted, and on an error."""
    return Pollable(stream.flow)


class _WriteCapacity:
    """Wait condition of a write of `count` bytes: space for all of it."""

    __slots__ = ("count", "flow")

    def __init__(self, flow: Any, count: int) -> None:
        self.flow = flow
        self.count = count

    def ready(self) -> bool:
        """Return whether the write would succeed or fail at once."""
        return self.flow.room() >= self.count or getattr(self.flow, "broken", None) is not None


def _room(stream: OutputStream) -> int:
    """Return the free space in bytes. Raises `Err` if the stream is closed."""
    flow = stream.flow
    broken = getattr(flow, "broken", None)
    if broken is not None:
        raise _stream_error(stream, broken)
    return int(flow.room())


def grant_permit(stream: OutputStream, limit: int) -> int:
    """Permit the next write as many bytes as there is space for, up to `limit`."""
    stream.permit = min(_room(stream), limit)
    return stream.permit


@method(STREAMS, "output-stream", "check-write")
def check_write(run: RunState, stream: OutputStream) -> int:
    """Return how many bytes the next write may carry; 0 means that the guest must wait."""
    return grant_permit(stream, MAX_LIST_BYTES)


def _put(stream: OutputStream, data: bytes) -> None:
    flow = stream.flow
    expected = getattr(flow, "expected", None)
    if expected is not None and flow.total + len(data) > expected:
        flow.broken = (flow.mismatch, flow.total + len(data))
        raise _stream_error(stream, flow.broken)
    flow.put(data)


@method(STREAMS, "output-stream", "write")
def write(run: RunState, stream: OutputStream, data: bytes) -> None:
    """Write within the permit of the last check-write. Raises Trap beyond it."""
    _room(stream)
    if len(data) > stream.permit:
        if data == ENGINE_FAILED:
            raise EngineFailed
        raise Trap(f"write of {len(data)} bytes where check-write permitted {stream.permit}")
    stream.permit -= len(data)
    _put(stream, data)


@method(STREAMS, "output-stream", "write-zeroes")
def write_zeroes(run: RunState, stream: OutputStream, count: int) -> None:
    """Write `count` zero bytes. Raises Trap beyond the permit."""
    if count > stream.permit:
        raise Trap(f"write-zeroes of {count} bytes where check-write permitted {stream.permit}")
    write(run, stream, bytes(count))


@method(STREAMS, "output-stream", "blocking-write-and-flush", blocking=True)
def blocking_write_and_flush(run: RunState, stream: OutputStream, data: bytes) -> Suspend | None:
    """Write up to 4096 bytes, waiting for space. Raises Trap above that size."""
    if len(data) > MAX_LIST_BYTES:
        raise Trap(f"blocking-write-and-flush of {len(data)} bytes; at most {MAX_LIST_BYTES} are allowed")
    if _room(stream) < len(data):
        return Suspend(
            [_WriteCapacity(stream.flow, len(data))], lambda: blocking_write_and_flush(run, stream, data)
        )
    _put(stream, data)
    return None


@method(STREAMS, "output-stream", "blocking-write-zeroes-and-flush", blocking=True)
def blocking_write_zeroes_and_flush(run: RunState, stream: OutputStream, count: int) -> Suspend | None:
    """Write up to 4096 zero bytes, waiting for space. Raises Trap above that size."""
    if count > MAX_LIST_BYTES:
        raise Trap(f"blocking-write-zeroes-and-flush of {count} bytes; at most {MAX_LIST_BYTES} are allowed")
    return blocking_write_and_flush(run, stream, bytes(count))


@method(STREAMS, "output-stream", "flush")
def flush(run: RunState, stream: OutputStream) -> None:
    """Check that the stream is open. Buffered data leaves at the guest's next yield without a request."""
    _room(stream)


@method(STREAMS, "output-stream", "blocking-flush", blocking=True)
def blocking_flush(run: RunState, stream: OutputStream) -> Suspend | None:
    """Wait until there is space again."""
    _room(stream)
    return None if stream.flow.ready() else Suspend([stream.flow], lambda: flush(run, stream))


@method(STREAMS, "output-stream", "splice")
def splice(run: RunState, stream: OutputStream, source: InputStream, limit: int) -> int:
    """Move up to `limit` bytes, as many as both sides permit now; return their number."""
    data = take(source, min(limit, _room(stream)))
    _put(stream, data)
    return len(data)


@method(STREAMS, "output-stream", "blocking-splice", blocking=True)
def blocking_splice(run: RunState, stream: OutputStream, source: InputStream, limit: int) -> Suspend | int:
    """Move at least one byte; return their number. Raises `Err` at the end of either stream."""
    waiting = [flow for flow in (stream.flow, source.flow) if not flow.ready()]
    if limit and waiting:
        return Suspend(waiting[:1], lambda: blocking_splice(run, stream, source, limit))
    return splice(run, stream, source, limit)
