"""`svc:doors/call@0.1`: call a Door in one host call. `svc:dev/script@0.1`: the source of a script.

An equivalent `wasi:http` request takes about thirty host calls, which is slow in some languages. Both paths
use the same DoorRouter, so access rules and caller identity are the same.
"""

import asyncio

from engine.door import DOMAIN, DoorResponse
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import RunState, Trap
from engine.wasm.wasi.http_fields import Fields
from engine.wasm.wasi.http_outgoing import (
    MAX_DESCRIPTION_CHARS,
    FutureIncomingResponse,
    OutgoingRequest,
    RequestOptions,
    set_authority,
    set_path,
)
from engine.wasm.wasi.registry import host

DoorAnswer = tuple[int, str] | None
_OPTIONS = RequestOptions()
_ALL_BYTES = 1 << 31


@host("svc:doors/call", "ask", blocking=True)
def ask(run: RunState, door: str, path: str, body: str) -> DoorAnswer | Suspend:
    """Post a text to a Door; return the status and the response text, or `None` if the request failed."""
    content = body.encode()
    run.last_call = f"POST http://{door}.{DOMAIN}{path}"[:MAX_DESCRIPTION_CHARS]
    if _on_loop():
        answer: DoorResponse | FutureIncomingResponse | None = run.call_door(run, door, path, content)
        if isinstance(answer, DoorResponse):
            return answer.status, answer.body.decode(errors="replace")
        if answer is not None:
            return Suspend([answer], lambda: _future_answer(answer))
    request = OutgoingRequest(Fields())
    request.method, request.scheme = ("post", None), ("HTTP", None)
    request.body = OutputBuffer()
    request.body.put(content)
    request.body.finished = True
    future = FutureIncomingResponse()
    try:
        set_authority(run, request, f"{door}.{DOMAIN}")
        set_path(run, request, path)
        run.fetch(run, request, _OPTIONS, future)
    except Err:
        return None
    return Suspend([future], lambda: _future_answer(future))


def _on_loop() -> bool:
    """Return whether this is the event loop's thread; guests that compute for long run in others."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _future_answer(future: FutureIncomingResponse) -> DoorAnswer:
    kind, response = future.result or ("err", None)
    if kind != "ok" or response is None:
        return None
    return response.status, response.body.flow.take(_ALL_BYTES).decode(errors="replace")


@host("svc:dev/script", "source")
def source(run: RunState) -> str:
    """Return the script of the artifact that this run serves. Raises Trap if it has none."""
    if run.script is None:
        raise Trap("this artifact has no script")
    return run.script
