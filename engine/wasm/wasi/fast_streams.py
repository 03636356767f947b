"""Host functions behind the patched methods of `wasi:io/streams` (see `binary/fast_streams`).

They do the same as the functions in `io.py`, with more bytes per call. Bytes cross the host boundary as
strings; `capi/ascii_packing.py` converts them.
"""

from engine.wasm.binary.fast_streams.modules import FAST_STREAMS, PACKED_SUFFIX
from engine.wasm.capi.ascii_packing import MAX_PACKED_BYTES
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.execution.run_state import Run
from engine.wasm.wasi import io
from engine.wasm.wasi.registry import packed_host

_BLOCKING_WRITE = "blocking-write-and-flush"
packed_host(FAST_STREAMS, "write", "write" + PACKED_SUFFIX)(io.write)
packed_host(FAST_STREAMS, _BLOCKING_WRITE, _BLOCKING_WRITE + PACKED_SUFFIX, blocking=True)(
    io.blocking_write_and_flush
)


@packed_host(FAST_STREAMS, "[method]output-stream.check-write")
def check_write(run: Run, stream: io.OutputStream) -> int:
    """Return how many bytes the next write may carry. Replaces `wasi:io`'s function in patched components."""
    return io.grant_permit(stream, MAX_PACKED_BYTES)


@packed_host(FAST_STREAMS, "read")
def read(run: Run, stream: io.InputStream, most: int) -> bytes:
    """Return the bytes available now, possibly none."""
    return io.take(stream, min(most, MAX_PACKED_BYTES))


@packed_host(FAST_STREAMS, "blocking-read", blocking=True)
def blocking_read(run: Run, stream: io.InputStream, most: int) -> Suspend | bytes:
    """Return at least one byte. Raises `Err` at the end of the stream."""
    return io.when_ready(stream, most, lambda: read(run, stream, most))
