"""Outgoing requests. The network part is in `engine/wasm/outbound/http.py`."""

from http import HTTPStatus

from engine.door import DOMAIN
from engine.wasm.capi.host_functions import host
from engine.wasm.execution.buffers import InputBuffer
from engine.wasm.execution.run_state import MAX_CHANNELS, RunState, Trap
from engine.wasm.outbound.messages import (
    MAX_CONCURRENT_REQUESTS,
    FutureResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestRefused,
    encode_error,
    encode_fields,
    parse_fields,
)

MAX_DESCRIPTION_CHARS = 200
_HEAD_PARTS = 9
CLIENT = f"client.{DOMAIN}"
"""A request to this host is answered with 204 when the client disconnects; later writes fail."""
DISCARDING = "/signal"
"""With this path, later writes are discarded."""
IDLE = "/idle"
"""With this path, they are too, and the answer is 404 as soon as the guest waits for nothing else."""
FAILURE = "/failure"
"""With this path and an origin as the query, the answer has the error code of the last failed call to it."""
LATER = "/later"
"""With this path and a key of `RunState.later` as the query, the answer is that of the Door, once."""


@host("fetch")
def fetch(run: RunState, text: bytes) -> bytes:
    """Start a request; return the error code of a request without a body that is refused.

    If the guest took the body, the future reports the refusal and writes to the body are discarded.
    StarlingMonkey continues to write the body after an error here, then awaits the future that it did not
    get. A closed stream would end its event loop. Raises Trap for too many requests; a `RequestRefused` of
    the network part becomes the error code.
    """
    channel, request = _parse(run, text)
    if len(run.pending) + len(run.inputs) >= MAX_CHANNELS or channel in run.pending:
        raise Trap(f"it holds more than {MAX_CHANNELS} outgoing requests and responses")
    if request.authority == CLIENT:
        _watch(run, channel, request.path)
        return b""
    path = request.path.partition("?")[0] or "/"
    scheme = request.scheme or "https"
    run.last_call = f"{request.method} {scheme}://{request.authority}{path}"[:MAX_DESCRIPTION_CHARS]
    future = run.pending[channel] = FutureResponse(f"{scheme}://{request.authority}")
    run.waiting += 1
    try:
        if run.waiting > MAX_CONCURRENT_REQUESTS or len(run.tasks) >= MAX_CONCURRENT_REQUESTS:
            run.notice("WARN", f"a call failed: {MAX_CONCURRENT_REQUESTS} others were in progress")
            raise RequestRefused("connection-limit-reached")
        run.fetch(run, request, future)
    except RequestRefused as refusal:
        future.settle(run, (refusal.code, None))
        if request.body is None:
            del run.pending[channel]
            return encode_error((refusal.code, None))
        request.body.discard()
    return b""


def _watch(run: RunState, channel: int, path: str) -> None:
    path, _, query = path.partition("?")
    if path == LATER and query in run.later:
        run.pending[channel] = run.later.pop(query)
        return
    if path in (FAILURE, LATER):
        answer = run.pending[channel] = FutureResponse()
        run.waiting += 1
        status = HTTPStatus.OK if path == FAILURE else HTTPStatus.NOT_FOUND
        fields = [(b"code", run.failures.get(query, "").encode())]
        answer.settle(run, IncomingResponse(status, fields, InputBuffer(ended=True)))
        return
    path = path if path in (DISCARDING, IDLE) else "/"
    future = run.watches.get(path)
    if future is None or future.ready():
        future = run.watches[path] = FutureResponse()
        run.waiting += 1
    run.pending[channel] = future
    if run.disconnected:
        settle_watches(run, HTTPStatus.NO_CONTENT)


def settle_watches(run: RunState, status: HTTPStatus) -> None:
    """Answer the requests that wait for the client's disconnect."""
    for future in tuple(run.watches.values()):
        future.settle(run, IncomingResponse(status, [], InputBuffer(ended=True)))


def _parse(run: RunState, text: bytes) -> tuple[int, OutgoingRequest]:
    """Return channel and request of a text."""
    *head, fields = text.split(b"\0", _HEAD_PARTS)
    channel, has_body, method, scheme, authority, path, *timeouts = (each.decode() for each in head)
    body = run.output(int(channel)) if has_body == "1" else None
    connect, first_byte, between = (int(each) if each else None for each in timeouts)
    return int(channel), OutgoingRequest(
        method=method,
        scheme=scheme,
        authority=authority,
        path=path,
        headers=parse_fields(fields),
        body=body,
        connect_timeout=connect,
        first_byte_timeout=first_byte,
        between_bytes_timeout=between,
    )


@host("response")
def response(run: RunState, channel: int) -> bytes:
    """Return the head of a response once it is available, or its error code; then its body is an input."""
    future = run.pending.get(channel)
    result = future.result if future is not None else ("internal-error", None)
    if result is None:
        return b""
    run.pending.pop(channel, None)
    if not isinstance(result, IncomingResponse):
        return b"-" + encode_error(result)
    run.inputs[channel] = result.body
    return b"+%d\0%b" % (result.status, encode_fields(result.headers))
