"""`svc:doors/call@0.1`: ask a Door in one call, for languages in which an HTTP request is work.

Owns the short way to what takes some thirty calls of `wasi:http`; who is asked, and on whose behalf, is
settled by the same Doorway.
"""

import asyncio

from engine.door import DOMAIN, DoorResponse
from engine.wasm.capi.host_functions import Suspend
from engine.wasm.capi.values import Err
from engine.wasm.execution.buffers import OutputBuffer
from engine.wasm.execution.run_state import Run
from engine.wasm.wasi.http_fields import Fields
from engine.wasm.wasi.http_outgoing import (
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
def ask(run: Run, door: str, path: str, body: str) -> DoorAnswer | Suspend:
    """Post a text to a Door; return the status and the text of its answer, or nothing when there is none."""
    content = body.encode()
    if _on_loop():
        asked: DoorResponse | FutureIncomingResponse | None = run.ask(run, door, path, content)
        if isinstance(asked, DoorResponse):
            return asked.status, asked.body.decode(errors="replace")
        if asked is not None:
            return Suspend([asked], lambda: _future_answer(asked))
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
    """Whether this is the event loop's thread; a guest that computes is polled on others."""
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
