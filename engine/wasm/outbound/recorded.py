"""Recorded responses of other servers, for replays without a network."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.wasm.execution.buffers import InputBuffer
from engine.wasm.execution.run_state import RunState
from engine.wasm.outbound.http import OutboundPolicy, method_of, origin_of, target_of
from engine.wasm.outbound.messages import (
    FORBIDDEN,
    FutureResponse,
    IncomingResponse,
    OutgoingRequest,
    RequestRefused,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResponse:
    """A request to another server, and its complete response."""

    method: str
    url: str
    status: int
    headers: tuple[tuple[str, bytes], ...]
    body: bytes


class RecordedOutbound:
    """Answers each request by the next recorded response for its method and URL, and denies others.

    Without one for the exact URL, a response for another query of the same URL is used.
    """

    def __init__(self, responses: Sequence[RecordedResponse]) -> None:
        self._responses = list(responses)

    def fetch(
        self, policy: OutboundPolicy, run: RunState, request: OutgoingRequest, future: FutureResponse
    ) -> None:
        """Answer a request. Raises `RequestRefused` if no response was recorded."""
        method, url = method_of(request), f"{origin_of(request)}{target_of(request)}"
        call = run.request.begin_call("fetch", f"{method} {origin_of(request)}")
        same = [each for each in self._responses if each.method == method]
        exact = (each for each in same if each.url == url)
        similar = (each for each in same if each.url.partition("?")[0] == url.partition("?")[0])
        response = next(exact, None) or next(similar, None)
        if response is None:
            if call is not None:
                call.end(0, "denied")
            run.notice(
                "WARN", f"a call to {url.partition('?')[0]} was denied: no response of it was recorded"
            )
            raise RequestRefused("HTTP-request-denied")
        self._responses.remove(response)
        if request.body is not None:  # A waiting writer must not block.
            request.body.discard()
        flow = InputBuffer(account=run)
        flow.feed(response.body)
        flow.end()
        if call is not None:
            call.end(response.status)
        fields = [(name.encode(), value) for name, value in response.headers]
        headers = [item for item in fields if item[0] not in FORBIDDEN]
        answer = IncomingResponse(response.status, headers, flow)
        run.on_loop(lambda: future.settle(run, answer))

    async def aclose(self) -> None:
        """Return at once: there are no connections."""
