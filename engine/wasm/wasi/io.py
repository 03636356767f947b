"""`wasi:io@0.2`: errors, pollables, streams (source: wasi:io 0.2.12, `package.wit`)."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import MAX_LIST_BYTES, InputBuffer
from engine.wasm.execution.run_state import Run, Trap
from engine.wasm.wasi.ownership import ChildResource, ParentResource
from engine.wasm.wasi.registry import host, method, resource

STREAMS = "wasi:io/streams"
MAX_POLLABLES = 16_384
"""Pollables that one call may wait for: to look at so many takes the host some 10 ms."""
_deadline = attrgetter("deadline")
_T = TypeVar("_T")


@resource("error")
class IoError:
    """Why a stream failed; `code` is a wasi:http error-code when there is one."""

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: Any = None) -> None:
        self.text = text
        self.code = code


@resource("pollable")
class Pollable:
    """Something to wait for: a `deadline` in the run's nanoseconds, or a source that becomes ready."""

    __slots__ = ("deadline", "source")

    def __init__(self, source: Any = None, deadline: int | None = None) -> None:
        self.source = source
        self.deadline = deadline


class BoundPollable:
    """A pollable as `Wait` sees it: bound to its run's clock."""

    __slots__ = ("deadline", "run", "source")

    def __init__(self, run: Run, pollable: Pollable) -> None:
        self.run = run
        self.source = pollable.source
        self.deadline = pollable.deadline

    def ready(self) -> bool:
        """Whether the deadline has passed or the source has something."""
        if self.deadline is not None:
            return self.run.now() >= self.deadline
        return bool(self.source is None or self.source.ready())


@resource("input-stream")
class InputStream(ChildResource):
    """A guest's view of an `Inflow`; `failed` says that the guest has heard why it broke."""

    __slots__ = ("failed", "flow")

    def __init__(self, flow: InputBuffer, parent: ParentResource | None = None) -> None:
        super().__init__(parent)
        self.flow = flow
        self.failed = False

    def drop(self, run: Run) -> None:
        """Take no more: what still comes is thrown away."""
        self.detach()
        self.flow.discard()


@resource("output-stream")
class OutputStream(ChildResource):
    """A guest's view of an `Outflow` or of `Lines`.

    `permit` is what the last check-write allowed; `failed` says that the guest has heard why it broke.
    """

    __slots__ = ("failed", "flow", "permit")

    def __init__(self, flow: Any, parent: ParentResource | None = None) -> None:
        super().__init__(parent)
        self.flow = flow
        self.permit = 0
        self.failed = False

    def drop(self, run: Run) -> None:
        """Write no more; the body around it says whether it is whole."""
        self.detach()


@method("wasi:io/error", "error", "to-debug-string")
def to_debug_string(run: Run, error: IoError) -> str:
    """Say what went wrong, in words for a person."""
    return error.text


@method("wasi:io/poll", "pollable", "ready")
def ready(run: Run, pollable: Pollable) -> bool:
    """Whether waiting would return at once."""
    return BoundPollable(run, pollable).ready()


@method("wasi:io/poll", "pollable", "block", blocking=True)
def block(run: Run, pollable: Pollable) -> Suspend | None:
    """Wait for one pollable."""
    source = BoundPollable(run, pollable)
    return None if source.ready() else Suspend([source], lambda: None)


@host("wasi:io/poll", "poll", blocking=True)
def poll(run: Run, pollables: list[Pollable]) -> Suspend | list[int]:
    """Wait until at least one is ready; return the positions of those that are."""
    if not pollables:
        raise Trap("poll was called with an empty list")
    if len(pollables) > MAX_POLLABLES:
        raise Trap(f"poll was called with more than {MAX_POLLABLES} pollables")
    sources = [BoundPollable(run, pollable) for pollable in pollables]

    def positions() -> list[int]:
        return [i for i, source in enumerate(sources) if source.ready()]

    return positions() or Suspend(_distinct_sources(sources), positions)


def _distinct_sources(sources: list[BoundPollable]) -> list[BoundPollable]:
    """Return those to look at while waiting: each source once, and of the clock's the first."""
    watched = {id(each.source): each for each in sources if each.deadline is None}
    timed = [each for each in sources if each.deadline is not None]
    return [*watched.values(), *([min(timed, key=_deadline)] if timed else [])]


def _stream_error(stream: InputStream | OutputStream, code: Any) -> Err:
    """Return the error of a stream that is over: why, when `code` says so, and from then on that it is."""
    if stream.failed or code in (None, "closed"):
        return Err(("closed", None))
    stream.failed = True
    return Err(("last-operation-failed", IoError(f"HTTP error: {code[0]}", code)))


def take(stream: InputStream, most: int) -> bytes:
    """Take up to `most` bytes that are there now; raise at the end of the stream."""
    flow = stream.flow
    data = flow.take(most)
    if not data and flow.exhausted:
        raise _stream_error(stream, flow.error)
    return data


def when_ready(stream: InputStream, most: int, finish: Callable[[], _T]) -> Suspend | _T:
    """Finish now where there are bytes or the end, or none are asked for; else when there are."""
    if most and not stream.flow.ready():
        return Suspend([stream.flow], finish)
    return finish()


@method(STREAMS, "input-stream", "read")
def read(run: Run, stream: InputStream, most: int) -> bytes:
    """Read what is there now, possibly nothing."""
    return take(stream, min(most, MAX_LIST_BYTES))


@method(STREAMS, "input-stream", "blocking-read", blocking=True)
def blocking_read(run: Run, stream: InputStream, most: int) -> Suspend | bytes:
    """Read at least one byte, or hear of the end."""
    return when_ready(stream, most, lambda: read(run, stream, most))


@method(STREAMS, "input-stream", "skip")
def skip(run: Run, stream: InputStream, most: int) -> int:
    """Throw away what is there now, up to `most` bytes; return how many."""
    return len(take(stream, most))


@method(STREAMS, "input-stream", "blocking-skip", blocking=True)
def blocking_skip(run: Run, stream: InputStream, most: int) -> Suspend | int:
    """Throw away at least one byte, or hear of the end."""
    return when_ready(stream, most, lambda: skip(run, stream, most))


@method(STREAMS, "input-stream", "subscribe")
def subscribe_input(run: Run, stream: InputStream) -> Pollable:
    """Return a pollable that is ready when a read would not come back empty."""
    return Pollable(stream.flow)


class _WriteCapacity:
    """What a write of `count` bytes waits for: some room is not enough, and would be waited for in vain."""

    __slots__ = ("count", "flow")

    def __init__(self, flow: Any, count: int) -> None:
        self.flow = flow
        self.count = count

    def ready(self) -> bool:
        """Whether the write can be done, or hears of the end."""
        return self.flow.room() >= self.count or getattr(self.flow, "broken", None) is not None


def _room(stream: OutputStream) -> int:
    """Return how much room there is now; raise when the stream is over."""
    flow = stream.flow
    broken = getattr(flow, "broken", None)
    if broken is not None:
        raise _stream_error(stream, broken)
    return int(flow.room())


def grant_permit(stream: OutputStream, most: int) -> int:
    """Permit the next write as many bytes as there is room for, up to `most`."""
    stream.permit = min(_room(stream), most)
    return stream.permit


@method(STREAMS, "output-stream", "check-write")
def check_write(run: Run, stream: OutputStream) -> int:
    """Return how many bytes the next write may carry; 0 means: subscribe and wait."""
    return grant_permit(stream, MAX_LIST_BYTES)


def _put(stream: OutputStream, data: bytes) -> None:
    flow = stream.flow
    expected = getattr(flow, "expected", None)
    if expected is not None and flow.total + len(data) > expected:
        flow.broken = (flow.mismatch, flow.total + len(data))
        raise _stream_error(stream, flow.broken)
    flow.put(data)


@method(STREAMS, "output-stream", "write")
def write(run: Run, stream: OutputStream, data: bytes) -> None:
    """Write within the last check-write's permit; beyond it is a trap."""
    _room(stream)
    if len(data) > stream.permit:
        raise Trap(f"write of {len(data)} bytes where check-write permitted {stream.permit}")
    stream.permit -= len(data)
    _put(stream, data)


@method(STREAMS, "output-stream", "write-zeroes")
def write_zeroes(run: Run, stream: OutputStream, count: int) -> None:
    """Write `count` zero bytes under the same rule as `write`."""
    if count > stream.permit:
        raise Trap(f"write-zeroes of {count} bytes where check-write permitted {stream.permit}")
    write(run, stream, bytes(count))


@method(STREAMS, "output-stream", "blocking-write-and-flush", blocking=True)
def blocking_write_and_flush(run: Run, stream: OutputStream, data: bytes) -> Suspend | None:
    """Write up to 4096 bytes, waiting for room; what is written leaves without waiting for more."""
    if len(data) > MAX_LIST_BYTES:
        raise Trap(f"blocking-write-and-flush of {len(data)} bytes; at most {MAX_LIST_BYTES} are allowed")
    if _room(stream) < len(data):
        return Suspend(
            [_WriteCapacity(stream.flow, len(data))], lambda: blocking_write_and_flush(run, stream, data)
        )
    _put(stream, data)
    return None


@method(STREAMS, "output-stream", "blocking-write-zeroes-and-flush", blocking=True)
def blocking_write_zeroes_and_flush(run: Run, stream: OutputStream, count: int) -> Suspend | None:
    """Write up to 4096 zero bytes under the same rule."""
    if count > MAX_LIST_BYTES:
        raise Trap(f"blocking-write-zeroes-and-flush of {count} bytes; at most {MAX_LIST_BYTES} are allowed")
    return blocking_write_and_flush(run, stream, bytes(count))


@method(STREAMS, "output-stream", "flush")
def flush(run: Run, stream: OutputStream) -> None:
    """Ask for what is buffered to leave: it does, whenever the guest gives way or an epoch passes."""
    _room(stream)


@method(STREAMS, "output-stream", "blocking-flush", blocking=True)
def blocking_flush(run: Run, stream: OutputStream) -> Suspend | None:
    """Wait until there is room again."""
    _room(stream)
    return None if stream.flow.ready() else Suspend([stream.flow], lambda: flush(run, stream))


@method(STREAMS, "output-stream", "subscribe")
def subscribe_output(run: Run, stream: OutputStream) -> Pollable:
    """Return a pollable that is ready when check-write would permit something."""
    return Pollable(stream.flow)


@method(STREAMS, "output-stream", "splice")
def splice(run: Run, stream: OutputStream, source: InputStream, most: int) -> int:
    """Move what both sides can take now, up to `most` bytes; return how many."""
    data = take(source, min(most, _room(stream)))
    _put(stream, data)
    return len(data)


@method(STREAMS, "output-stream", "blocking-splice", blocking=True)
def blocking_splice(run: Run, stream: OutputStream, source: InputStream, most: int) -> Suspend | int:
    """Move at least one byte, or hear of an end."""
    waiting = [flow for flow in (stream.flow, source.flow) if not flow.ready()]
    if most and waiting:
        return Suspend(waiting[:1], lambda: blocking_splice(run, stream, source, most))
    return splice(run, stream, source, most)
