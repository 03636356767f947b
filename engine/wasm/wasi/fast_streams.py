"""Host functions behind the patched methods of `wasi:io/streams` (see `binary/fast_streams`).

They do the same as the functions in `io.py`, with more bytes per call. Bytes cross the host boundary as
strings; `capi/ascii_packing.py` converts them.
"""

from engine.wasm.binary.fast_streams.modules import FAST_STREAMS, PACKED_SUFFIX
from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi import io
from engine.wasm.wasi.registry import host

_BLOCKING_WRITE = "blocking-write-and-flush"
host(FAST_STREAMS, "write", "write" + PACKED_SUFFIX, packed=True)(io.write)
host(FAST_STREAMS, _BLOCKING_WRITE, _BLOCKING_WRITE + PACKED_SUFFIX, blocking=True, packed=True)(
    io.blocking_write_and_flush
)


@host(FAST_STREAMS, "[method]output-stream.check-write", packed=True)
def check_write(run: RunState, stream: io.OutputStream) -> int:
    """Return how many bytes the next write may carry. Replaces `wasi:io`'s function in patched components."""
    return io.grant_permit(stream, MAX_PACKED_BYTES)


@host(FAST_STREAMS, "read", packed=True)
def read(run: RunState, stream: io.InputStream, limit: int) -> bytes:
    """Return the bytes available now, possibly none."""
    return io.take(stream, min(limit, MAX_PACKED_BYTES))


@host(FAST_STREAMS, "blocking-read", blocking=True, packed=True)
def blocking_read(run: RunState, stream: io.InputStream, limit: int) -> Suspend | bytes:
    """Return at least one byte. Raises `Err` at the end of the stream."""
    return io.when_ready(stream, limit, lambda: read(run, stream, limit))
