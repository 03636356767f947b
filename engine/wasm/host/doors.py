"""`svc:doors/call@0.1`: call a Door in one host call. `svc:dev/script@0.1`: the source of a script.

An equivalent `wasi:http` request takes several host calls. Both paths use the same DoorRouter, so access
rules and caller identity are the same.
"""

import asyncio

from engine.door import DOMAIN, DoorResponse
from engine.wasm.capi.host_functions import Suspend, host
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import RunState, Trap
from engine.wasm.host.requests import MAX_DESCRIPTION_CHARS
from engine.wasm.outbound.messages import (
    FutureResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestRefused,
    is_path,
)

DoorAnswer = tuple[int, bytes] | None
_ALL_BYTES = 1 << 31


@host("ask", interface="svc:doors/call", blocking=True)
def ask(run: RunState, door: bytes, path: bytes, body: bytes) -> DoorAnswer | Suspend:
    """Post a text to a Door; return the status and the response text, or `None` if the request failed."""
    name, target = door.decode(), path.decode()
    run.last_call = f"POST http://{name}.{DOMAIN}{target}"[:MAX_DESCRIPTION_CHARS]
    if _on_loop():
        answer: DoorResponse | FutureResponse | None = run.call_door(run, name, target, body)
        if isinstance(answer, DoorResponse):
            return answer.status, _text(answer.body)
        if answer is not None:
            return Suspend([answer], lambda: _future_answer(answer))
    if not is_path(target):
        return None
    content = OutputBuffer()
    content.put(body)
    content.finished = True
    request = OutgoingRequest(
        method="POST", scheme="http", authority=f"{name}.{DOMAIN}", path=target, headers=[], body=content
    )
    future = FutureResponse()
    run.waiting += 1
    try:
        run.fetch(run, request, future)
    except RequestRefused:
        run.waiting -= 1
        return None
    return Suspend([future], lambda: _future_answer(future))


def _on_loop() -> bool:
    """Return whether this is the event loop's thread; guests that compute for long run in others."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _future_answer(future: FutureResponse) -> DoorAnswer:
    result = future.result
    if not isinstance(result, IncomingResponse):
        return None
    return result.status, _text(result.body.take(_ALL_BYTES))


def _text(body: bytes) -> bytes:
    return body if body.isascii() else body.decode(errors="replace").encode()


@host("source", interface="svc:dev/script")
def source(run: RunState) -> bytes:
    """Return the script of the artifact that this run serves. Raises Trap if it has none."""
    if run.script is None:
        raise Trap("this artifact has no script")
    return run.script.encode()
