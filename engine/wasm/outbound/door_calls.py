"""Calls from guests to Doors: HTTP requests to reserved host names, answered in-process.

The caller's identity is fixed when a resource's DoorRouter is created; nothing in a request changes it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from http import HTTPStatus
from time import thread_time_ns

from engine.door import DOMAIN, Caller, DoorRequest, DoorResponse, Headers, OpenDoor, problem_response
from engine.errors import SvcError
from engine.manifest.model import Resource
from engine.trace import Call
from engine.wasm.execution.buffers import InputBuffer
from engine.wasm.execution.run_state import MAX_HELD_BYTES, RunState
from engine.wasm.outbound.http import method_of, origin_of, receive, target_of, upload
from engine.wasm.outbound.messages import (
    ErrorCode,
    FutureResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestRefused,
    is_path,
)

MAX_PATH_CHARS = 200
"""Maximum characters of a path in the name of a span."""
_SUFFIX = f".{DOMAIN}"
Fetch = Callable[[RunState, OutgoingRequest, FutureResponse], None]


@dataclass(frozen=True, slots=True)
class DoorBinding:
    """A Door that is open for a project, with its maximum request body size in bytes, or that it streams.

    `uses` counts its requests, by its name and their resource.
    """

    door: OpenDoor
    max_body: int
    streams: bool = False
    name: str = ""
    uses: Counter[tuple[str, str]] = field(default_factory=Counter, compare=False)

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request, and count it."""
        self.uses[self.name, request.caller.resource] += 1
        return self.door.answer(request)


class DoorRouter:
    """Routes one resource's requests to its project's Doors, and all others to `fetch_external`."""

    def __init__(
        self,
        doors: Mapping[str, DoorBinding],
        resource: Resource,
        fetch_external: Fetch,
        deployment: str = "",
    ) -> None:
        self._doors = {f"{name}.{DOMAIN}": door for name, door in doors.items()}
        self._resource = resource
        self._fetch_external, self._deployment = fetch_external, deployment

    def fetch(self, run: RunState, request: OutgoingRequest, future: FutureResponse) -> None:
        """Start a request from guest code. Raises `RequestRefused` for immediate failures."""
        origin = origin_of(request)
        if not (origin.host == DOMAIN or origin.host.endswith(f".{DOMAIN}")):
            self._fetch_external(run, request, future)
            return
        door = self._doors.get(origin.host)
        if door is None or (origin.scheme, origin.port) != ("http", 80):
            available = ", ".join(f"http://{each}" for each in self._doors) or "none"
            why = f"it is not the address of a Door; available: {available}"
            run.notice("WARN", f"a call to {origin} was denied: {why}")
            raise RequestRefused("HTTP-request-denied")
        call = _DoorCall(door, run, request, self._caller(run), future)
        run.on_loop(call.advance)

    def call(self, run: RunState, name: str, path: str, body: bytes) -> DoorResponse | FutureResponse | None:
        """Post to a Door; most responses are available on return, on the event loop's thread.

        Returns `None`, without calling the Door, if the request is invalid or too large; `fetch` reports the
        reason.
        """
        host = f"{name}.{DOMAIN}"
        door = self._doors.get(host)
        if door is None or door.streams or len(body) > door.max_body or path[:1] != "/" or not is_path(path):
            return None
        request = _begin_call(run, self._caller(run), "POST", host, path, (), body)
        answer = None if run.offloaded else _invoke(run, host, door, request)
        if isinstance(answer, DoorResponse):
            return answer
        future = FutureResponse()
        run.waiting += 1
        pending = _PendingResponse(run, host, None, future, request.call)
        run.on_loop(lambda: pending.deliver(answer or pending.invoke(door, request)))
        return future

    def _caller(self, run: RunState) -> Caller:
        if run.caller is not None:
            return run.caller
        variables = run.request.env
        _, trace, span, _ = variables.get("TRACEPARENT", "---").split("-")
        request_id, stale = variables.get("SVC_REQUEST_ID", ""), self._resource.reads == "stale"
        caller = Caller(self._resource.name, request_id, trace, span, stale, deployment=self._deployment)
        run.caller = caller
        return caller


def _invoke(
    run: RunState, host: str, door: DoorBinding, request: DoorRequest
) -> DoorResponse | Awaitable[DoorResponse]:
    """Call a Door on the event loop's thread; end the span of the call if the response is available."""
    try:
        answer = door.answer(request)
    except Exception as error:
        answer = _door_failed(run, host, error)
    if isinstance(answer, DoorResponse):
        _end_call(run, request.call, answer)
    return answer


def _begin_call(
    run: RunState,
    caller: Caller,
    method: str,
    host: str,
    target: str,
    headers: Headers,
    body: bytes,
    stream: AsyncIterator[bytes] | None = None,
) -> DoorRequest:
    """Start the span of a call, and return its request."""
    path, _, query = target.partition("?")
    name = f"{method} {host.removesuffix(_SUFFIX)}{path[:MAX_PATH_CHARS]}"
    return DoorRequest(
        method,
        path,
        query=query,
        headers=headers,
        body=body,
        caller=caller,
        budget=run,
        call=run.request.begin_call("door", name),
        trace=run.request.trace,
        session=run.request.session,
        stream=stream,
    )


def _end_call(run: RunState, call: Call | None, answer: DoorResponse) -> None:
    """End the span of a call, and capture the response if the Door captures its calls."""
    run.door_unavailable = answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    if call is None:
        return
    call.end(answer.status)
    if call.capture is not None and call.capture.sent:
        call.capture.received = call.capture.cut(answer.body)


def _door_failed(run: RunState, host: str, error: BaseException) -> DoorResponse:
    run.notice("ERROR", f"the Door at {host} failed: {error!r}")
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the Door failed, and the project's log says why"
    )


@dataclass(slots=True, eq=False)
class _PendingResponse:
    """A Door's response in progress, which settles the guest's future. Its timeout is in nanoseconds."""

    _run: RunState
    _host: str
    _timeout: int | None
    _future: FutureResponse
    span: Call | None = None
    _: KW_ONLY
    _timer: asyncio.TimerHandle | None = None

    def invoke(self, door: DoorBinding, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Call the Door outside of the polls that measure the guest's CPU time."""
        self.span, began = request.call, thread_time_ns()
        answer = _invoke(self._run, self._host, door, request)
        self._run.door_cpu_ns += thread_time_ns() - began
        return answer

    def deliver(self, answer: DoorResponse | Awaitable[DoorResponse]) -> None:
        """Settle the future with a response, now or when it is available."""
        if isinstance(answer, DoorResponse):
            self.respond(answer)
            return
        task = asyncio.ensure_future(answer)
        task.add_done_callback(self._on_done)
        self._run.add_task(task)
        self._future.cancel = task.cancel
        if self._timeout is not None:
            self._timer = task.get_loop().call_later(self._timeout / 1e9, self._on_timeout, task)

    def _on_timeout(self, task: "asyncio.Future[DoorResponse]") -> None:
        task.cancel()
        if self.span is not None:
            self.span.end(code="timeout")
        self.settle(("connection-read-timeout", None))

    def _on_done(self, task: "asyncio.Future[DoorResponse]") -> None:
        if self._timer is not None:
            self._timer.cancel()
        if task.cancelled() or self._future.result is not None:
            return
        error = task.exception()
        answer = _door_failed(self._run, self._host, error) if error else task.result()
        _end_call(self._run, self.span, answer)
        self.respond(answer)

    def respond(self, answer: DoorResponse) -> None:
        if self._run.held_bytes + len(answer.body) > MAX_HELD_BYTES:
            self.settle(("connection-limit-reached", None))
            return
        flow = InputBuffer(account=self._run)
        headers = [(name.encode(), value) for name, value in answer.headers]
        if answer.stream is not None:
            self._run.add_task(asyncio.ensure_future(self._send(answer.stream, flow)))
        else:
            flow.feed(answer.body)
            flow.end()
            headers.append((b"content-length", str(len(answer.body)).encode()))
        self.settle(IncomingResponse(answer.status, headers, flow))

    async def _send(self, stream: AsyncGenerator[bytes, None], flow: InputBuffer) -> None:
        async with aclosing(stream):
            try:
                await receive(self._run, stream, flow)
            except Exception as error:
                reason = error.public_message if isinstance(error, SvcError) else repr(error)
                self._run.notice("ERROR", f"a response of the Door at {self._host} ended early: {reason}")
                flow.end(("HTTP-response-incomplete", None))
                self._run.wake()

    def settle(self, result: IncomingResponse | ErrorCode) -> None:
        self._future.settle(self._run, result)


class _DoorCall:
    """A request to a Door, sent once the guest has written the complete body, or at once if it streams."""

    def __init__(
        self, door: DoorBinding, run: RunState, request: OutgoingRequest, by: Caller, future: FutureResponse
    ) -> None:
        self._door, self._run, self._request, self._caller = door, run, request, by
        self._host, self._method = request.authority, method_of(request)
        self._pending = _PendingResponse(run, self._host, request.first_byte_timeout, future)
        self._parts: list[bytes] = []
        self._size, self._invoked = 0, False
        if request.body is not None and not door.streams:
            request.body.on_change = partial(run.on_loop, self.advance)

    def advance(self) -> None:
        """Read newly written body bytes; call the Door once the body is complete."""
        body = self._request.body
        if self._invoked:
            return
        if body is None or self._door.streams:
            self._send()
            return
        if data := body.drain():
            self._parts.append(data)
            self._size += len(data)
            self._run.held_bytes += len(data)
            self._run.wake()
        if self._run.held_bytes > MAX_HELD_BYTES:
            self._abandon()
            self._pending.settle(("connection-limit-reached", None))
        elif self._size > self._door.max_body:
            self._abandon()
            detail = f"the body has more than the {self._door.max_body} bytes that this Door takes"
            self._pending.respond(
                problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body-too-large", detail)
            )
        elif body.finished:
            self._send()
        elif body.broken is not None:
            self._abandon()
            code = body.broken if isinstance(body.broken, tuple) else ("HTTP-protocol-error", None)
            self._pending.settle(code)

    def _abandon(self) -> None:
        """Discard the rest of the body. The stream stays open, or StarlingMonkey would exit on a write."""
        assert self._request.body is not None
        self._request.body.discard()
        self._invoked = True
        self._run.held_bytes -= self._size
        self._parts.clear()

    def _send(self) -> None:
        self._invoked = True
        self._run.held_bytes -= self._size
        target, body = target_of(self._request), b"".join(self._parts)
        headers = tuple([(name.decode(), value) for name, value in self._request.headers])
        written = self._request.body
        stream = upload(self._run, written) if self._door.streams and written is not None else None
        request = _begin_call(
            self._run, self._caller, self._method, self._host, target, headers, body, stream
        )
        self._parts.clear()
        answer = self._pending.invoke(self._door, request)
        if stream is not None and not isinstance(answer, DoorResponse):
            answer = self._with_rest_discarded(answer)
        self._pending.deliver(answer)

    async def _with_rest_discarded(self, answer: Awaitable[DoorResponse]) -> DoorResponse:
        """Return an answer; a guest that still writes the body does not wait any longer."""
        try:
            return await answer
        finally:
            assert self._request.body is not None
            self._request.body.discard()
            self._run.wake()
