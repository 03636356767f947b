"""Start, clock, output and end of a run."""

import os
import time
from typing import NoReturn

from engine.wasm.capi.host_functions import host
from engine.wasm.execution.run_state import EngineFailed, GuestExit, RunState, Trap
from engine.wasm.outbound.messages import encode_fields

ENGINE_FAILED = b"ERROR: no fetch-event handler triggered, was one registered?"
"""The body that StarlingMonkey writes when its own code has ended a handler."""
_FAILED_WITHOUT_STATUS = 256
_MAX_TEXT = 1000


@host("begin")
def begin(run: RunState) -> bytes:
    """Return what a run starts with: clock, seed, head of the request, and environment."""
    request = run.request
    fields = encode_fields(request.headers)
    return b"%d\0%b\0%d\0%b\0%b\0%b\0%b\0%d\0%b%b" % (
        time.time_ns() + request.time_shift_ns,
        os.urandom(32).hex().encode(),
        run.body.exhausted,
        request.method.encode(),
        request.scheme.encode(),
        request.authority.encode(),
        request.target.encode(),
        len(fields),
        fields,
        run.environment,
    )


@host("now")
def now(run: RunState) -> int:
    return run.now()


@host("print", packed="arguments")
def print_(run: RunState, stream: int, data: bytes) -> None:
    """Add printed bytes, which become lines of the timeline."""
    run.lines_of("stdout" if stream == 1 else "stderr").put(data)


@host("exit")
def exit_(run: RunState, status: int) -> NoReturn:
    raise GuestExit(None if status == _FAILED_WITHOUT_STATUS else status)


@host("trap")
def trap(run: RunState, text: bytes) -> NoReturn:
    """End the run, because the guest broke a rule that the text names. Raises Trap."""
    if text == ENGINE_FAILED:
        raise EngineFailed
    raise Trap(text[:_MAX_TEXT].decode(errors="replace"))


@host("warn")
def warn(run: RunState, text: bytes) -> None:
    run.notice("WARN", text[:_MAX_TEXT].decode(errors="replace"))
