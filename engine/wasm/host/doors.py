"""`svc:doors/call@0.1`: call a Door in one host call. `svc:dev/script@0.1`: the source of a script.

An equivalent `wasi:http` request takes several host calls. Both paths use the same DoorRouter, so access
rules and caller identity are the same.
"""

from engine.door import DOMAIN, DoorResponse
from engine.wasm.capi.host_functions import Suspend, host
from engine.wasm.execution.run_state import RunState, Trap
from engine.wasm.host.requests import CLIENT, LATER, MAX_DESCRIPTION_CHARS
from engine.wasm.outbound.messages import MAX_CONCURRENT_REQUESTS, FutureResponse, IncomingResponse

DoorAnswer = tuple[int, bytes] | None
_ALL_BYTES = 1 << 31
PATIENCE_NS = 10_000_000
"""How long `start` waits for an answer: longer than most commits."""


@host("ask", interface="svc:doors/call", blocking=True)
def ask(run: RunState, door: bytes, path: bytes, body: bytes) -> DoorAnswer | Suspend:
    """Post a text to a Door; return the status and the response text, or `None` without an answer."""
    answer = _post(run, door, path, body)
    if not isinstance(answer, FutureResponse):
        return answer
    return Suspend([answer], lambda: _received(answer))


@host("start", interface="svc:doors/call", blocking=True)
def start(run: RunState, door: bytes, path: bytes, body: bytes) -> DoorAnswer | Suspend:
    """Post a text as `ask`; after `PATIENCE_NS`, return 0 and the URL that is answered with the response.

    `None` means that the Door was not called, so that the request can be sent again. While a maximum of other
    requests is in progress, it waits for the answer, as `ask` does.
    """
    future = _post(run, door, path, body)
    if not isinstance(future, FutureResponse):
        return future
    future.origin = f"http://{CLIENT}"

    def finish() -> DoorAnswer:
        if (received := _received(future)) is not None:
            return received
        key = str(next(run.later_keys))
        run.later[key] = future
        return 0, f"{future.origin}{LATER}?{key}".encode()

    is_full = len(run.tasks) >= MAX_CONCURRENT_REQUESTS
    return Suspend([future], finish, None if is_full else run.now() + PATIENCE_NS)


def _post(run: RunState, door: bytes, path: bytes, body: bytes) -> DoorAnswer | FutureResponse:
    name, target = door.decode(), path.decode()
    run.last_call = f"POST http://{name}.{DOMAIN}{target}"[:MAX_DESCRIPTION_CHARS]
    answer: DoorResponse | FutureResponse | None = run.call_door(run, name, target, body)
    return (answer.status, _text(answer.body)) if isinstance(answer, DoorResponse) else answer


def _received(future: FutureResponse) -> DoorAnswer:
    if not isinstance(future.result, IncomingResponse):
        return None
    return future.result.status, _text(future.result.body.take(_ALL_BYTES))


def _text(body: bytes) -> bytes:
    return body if body.isascii() else body.decode(errors="replace").encode()


@host("source", interface="svc:dev/script")
def source(run: RunState) -> bytes:
    """Return the script of the artifact that this run serves. Raises Trap if it has none."""
    if run.script is None:
        raise Trap("this artifact has no script")
    return run.script.encode()
