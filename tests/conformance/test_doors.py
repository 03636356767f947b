"""Doors: requests to reserved host names, answered in-process for the caller known to the engine."""

import asyncio
from collections.abc import Awaitable
from time import thread_time_ns
from typing import Any

import pytest

from engine.door import Caller, DoorRequest, DoorResponse
from engine.wasm.execution.run_state import MAX_HELD_BYTES
from engine.wasm.host import doors
from engine.wasm.outbound.door_calls import DoorBinding
from engine.wasm.outbound.messages import MAX_CONCURRENT_REQUESTS
from tests.conformance.client import MILLISECOND, MOST, new_request, take_response
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Host

PORCH = "porch.svc.internal"
BUSY_NS = 100_000_000


class Porch:
    """A Door that stores requests and responds in one of several ways."""

    def __init__(self) -> None:
        self.asked: list[DoorRequest] = []
        self.given_up = asyncio.Event()
        self.seen = asyncio.Event()

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        self.asked.append(request)
        if request.path == "/fault":
            raise RuntimeError("the porch is on fire")
        if request.path == "/busy":
            until = thread_time_ns() + BUSY_NS
            while thread_time_ns() < until:
                pass
        if request.path == "/later":
            return self._later(request)
        if request.path == "/slow":
            return self._later(request, 0.02)
        if request.path == "/seen":
            self.seen.set()
        if request.path == "/once-seen":
            return self._once_seen(request)
        if request.path == "/large":
            return self._after_a_turn(DoorResponse(200, bytes(MAX_HELD_BYTES + 1)))
        if request.path == "/never":
            return self._never()
        if request.path.startswith("/closed"):
            closed = DoorResponse(503, b"")
            return closed if request.path == "/closed" else self._after_a_turn(closed)
        return DoorResponse(201, request.body.upper(), (("x-porch", b"yes"),))

    async def _later(self, request: DoorRequest, seconds: float = 0) -> DoorResponse:
        await asyncio.sleep(seconds)
        return DoorResponse(200, request.body)

    async def _once_seen(self, request: DoorRequest) -> DoorResponse:
        await self.seen.wait()
        return DoorResponse(200, request.body)

    async def _after_a_turn(self, response: DoorResponse) -> DoorResponse:
        await asyncio.sleep(0)
        return response

    async def _never(self) -> DoorResponse:
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()
        raise AssertionError

    async def aclose(self) -> None:
        """Do nothing: no resource is open."""


@pytest.fixture
def porch() -> Porch:
    return Porch()


def through(host: Host, porch: Porch, guest: Guest, **fields: Any) -> Answer:
    return host.run(guest, doors={"porch": DoorBinding(porch, 1000)}, **fields)


def posting(guest: Guest, path: str, *parts: bytes) -> tuple[Step, Step]:
    """Send a request with a body; return the future response and the result of finishing the body."""
    request = new_request(guest, PORCH, path, ("x-kind", b"a"), ("x-kind", b"b"), method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    for part in parts:
        guest.call("output-stream.blocking-write-and-flush", stream, part)
    return future, guest.finish(body, stream)


def reading(guest: Guest, response: Step) -> Step:
    source = guest.call("incoming-body.stream", guest.call("incoming-response.consume", response))
    return guest.call("input-stream.blocking-read", source, MOST)


def read_later(guest: Guest, query: str, path: str = "/later") -> Step:
    """Request a response from the host itself, and wait for it."""
    request = new_request(guest, "client.svc.internal", path + query)
    return take_response(guest, guest.call("outgoing-handler/handle", request, None))


def test_door_receives_request_and_caller(host: Host, porch: Porch) -> None:
    guest = Guest()
    future, finished = posting(guest, "/v1/thing?a=1&b=2", b"one, ", b"two")
    response = take_response(guest, future)
    status = guest.call("incoming-response.status", response)
    entries = guest.call("fields.entries", guest.call("incoming-response.headers", response))
    read = reading(guest, response)
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine" and answer[finished] == ("ok", None)
    assert (answer[status], answer[read]) == (201, ("ok", b"ONE, TWO"))
    assert answer[entries] == [("x-porch", b"yes"), ("content-length", b"8")]
    (asked,) = porch.asked
    assert (asked.method, asked.path, asked.query, asked.body) == (
        "POST",
        "/v1/thing",
        "a=1&b=2",
        b"one, two",
    )
    assert asked.headers == (("x-kind", b"a"), ("x-kind", b"b"))
    assert asked.caller == Caller("api", "request-1", "7" * 32, "3" * 16)


def test_calls_of_a_request_have_its_session_and_the_reads_of_the_resource(host: Host, porch: Porch) -> None:
    guest = Guest()
    guest.call("ask", "porch", "/v1/thing", "one")
    take_response(guest, posting(guest, "/v1/thing", b"two")[0])
    guest.answer(b"fine")
    assert through(host, porch, guest, reads="stale").body == b"fine"
    first, second = porch.asked
    assert first.session is second.session
    assert first.caller.stale_reads and second.caller.stale_reads


def test_cpu_time_of_an_immediate_answer_counts_once_for_the_run(host: Host, porch: Porch) -> None:
    asking, posts = Guest(), Guest()
    asking.call("ask", "porch", "/busy", "one")
    take_response(posts, posting(posts, "/busy", b"one")[0])
    for guest in (asking, posts):
        guest.answer(b"fine")
        assert BUSY_NS <= through(host, porch, guest).report.compute_ns < 2 * BUSY_NS


def test_door_request_without_body_has_empty_body(host: Host, porch: Porch) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, PORCH, "?q"), None)
    take_response(guest, future)
    guest.answer(b"fine")
    assert through(host, porch, guest).body == b"fine"
    assert (porch.asked[0].method, porch.asked[0].path, porch.asked[0].query) == ("GET", "/", "q")
    assert porch.asked[0].body == b""


def test_slow_door_response_is_delivered(host: Host, porch: Porch) -> None:
    guest = Guest()
    future, _ = posting(guest, "/later", b"slow")
    read = reading(guest, take_response(guest, future))
    guest.answer(b"fine")
    assert through(host, porch, guest)[read] == ("ok", b"slow")


@pytest.mark.parametrize(
    ("paths", "outcome"),
    [
        (["/closed"], "unavailable"),
        (["/open", "/closed-later"], "unavailable"),
        (["/closed", "/open"], "guest-failed"),
        (["/fault"], "guest-failed"),
    ],
)
def test_failure_after_a_door_was_unavailable_is_temporary(
    host: Host, porch: Porch, paths: list[str], outcome: str
) -> None:
    guest = Guest()
    for path in paths:
        take_response(guest, posting(guest, path, b"x")[0])
    assert through(host, porch, guest).report.outcome == outcome


def test_guest_may_answer_itself_when_a_door_is_unavailable(host: Host, porch: Porch) -> None:
    guest = Guest()
    take_response(guest, posting(guest, "/closed", b"x")[0])
    guest.answer(b"later")
    answer = through(host, porch, guest)
    assert (answer.report.outcome, answer.body) == ("ok", b"later")


@pytest.mark.parametrize("authority", [PORCH.upper(), f"{PORCH}.", f"{PORCH}:80"])
def test_reserved_host_name_variants_reach_door(host: Host, porch: Porch, authority: str) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, authority, "/"), None)
    take_response(guest, future)
    guest.answer(b"fine")
    assert through(host, porch, guest).body == b"fine" and len(porch.asked) == 1


@pytest.mark.parametrize(
    "authority", ["svc.internal", "other.svc.internal", f"a.{PORCH}", f"{PORCH}:8080", f"{PORCH}:443"]
)
def test_reserved_host_names_are_never_sent_out(host: Host, porch: Porch, authority: str) -> None:
    guest = Guest()
    denied = guest.call("outgoing-handler/handle", new_request(guest, authority, "/"), None)
    guest.answer(b"fine")
    answer = through(host, porch, guest, egress=(f"http://{authority}", "http://*.svc.internal"))
    assert answer[denied] == ("err", "HTTP-request-denied") and porch.asked == []
    ((level, message),) = answer.lines
    assert level == "WARN" and f"http://{authority}" in message and f"http://{PORCH}" in message


def test_oversized_door_body_is_rejected_early(host: Host, porch: Porch) -> None:
    guest = Guest()
    future, _ = posting(guest, "/", b"x" * 4000)
    response = take_response(guest, future)
    status = guest.call("incoming-response.status", response)
    guest.answer(b"fine")
    assert through(host, porch, guest)[status] == 413 and porch.asked == []


def test_abandoned_door_body_calls_nothing(host: Host, porch: Porch) -> None:
    guest = Guest()
    request = new_request(guest, PORCH, "/", method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    guest.drop(stream, body)
    response = take_response(guest, future)
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer[response] == ("ok", ("err", "HTTP-protocol-error")) and porch.asked == []


def test_complete_door_request_arrives_even_without_waiting(host: Host, porch: Porch) -> None:
    guest = Guest()
    request = new_request(guest, PORCH, "/", method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    guest.call("output-stream.check-write", stream)
    guest.call("output-stream.write", stream, b"a record")
    guest.finish(body, stream)
    guest.drop(future)
    guest.answer(b"fine")
    assert through(host, porch, guest).body == b"fine"
    assert [request.body for request in porch.asked] == [b"a record"]


def test_failing_door_returns_problem(host: Host, porch: Porch) -> None:
    guest = Guest()
    future, _ = posting(guest, "/fault", b"")
    response = take_response(guest, future)
    status = guest.call("incoming-response.status", response)
    read = reading(guest, response)
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer[status] == 500 and b"on fire" not in answer[read][1]
    assert any(level == "ERROR" and "the porch is on fire" in text for level, text in answer.lines)


def test_door_timeout_reports_read_timeout(host: Host, porch: Porch) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-first-byte-timeout", options, 5 * MILLISECOND)
    future = guest.call("outgoing-handler/handle", new_request(guest, PORCH, "/never"), options)
    response = take_response(guest, future)
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer[response] == ("ok", ("err", "connection-read-timeout")) and porch.given_up.is_set()


def test_dropped_future_cancels_door_call(host: Host, porch: Porch) -> None:
    guest = Guest()
    dropped = guest.call("outgoing-handler/handle", new_request(guest, PORCH, "/never"), None)
    take_response(guest, posting(guest, "/later", b"first")[0])
    guest.drop(dropped)
    take_response(guest, posting(guest, "/later", b"second")[0])
    guest.answer(b"gave up")
    assert through(host, porch, guest).body == b"gave up" and porch.given_up.is_set()


def test_open_door_calls_are_canceled_at_end_of_run(host: Host, porch: Porch) -> None:
    guest = Guest()
    guest.call("outgoing-handler/handle", new_request(guest, PORCH, "/never"), None)
    guest.answer(b"left")
    assert through(host, porch, guest).body == b"left"


def test_door_can_be_called_in_one_host_call(host: Host, porch: Porch) -> None:
    guest = Guest()
    result = guest.call("ask", "porch", "/v1/thing?a=1", "one ü")
    later = guest.call("ask", "porch", "/later", "two")
    fault = guest.call("ask", "porch", "/fault", "")
    large = guest.call("ask", "porch", "/", "x" * 2000)
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine"
    assert answer[result] == (201, "ONE ü") and answer[later] == (200, "two")
    assert (answer[fault][0], answer[large]) == (500, None)
    first = porch.asked[0]
    assert (first.method, first.path, first.query) == ("POST", "/v1/thing", "a=1")
    assert first.body == "one ü".encode() and first.headers == ()
    assert first.caller == Caller("api", "request-1", "7" * 32, "3" * 16)
    assert [asked.path for asked in porch.asked] == ["/v1/thing", "/later", "/fault"]


def test_door_can_be_called_in_a_host_call_that_ends_soon(
    host: Host, porch: Porch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "PATIENCE_NS", 60_000 * MILLISECOND)
    guest = Guest()
    quick = guest.call("start", "porch", "/v1/thing", "one ü")
    later = guest.call("start", "porch", "/later", "two")
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine"
    assert (answer[quick], answer[later]) == ((201, "ONE ü"), (200, "two"))


def test_answers_of_a_door_that_come_later_are_received_from_a_url(host: Host, porch: Porch) -> None:
    guest = Guest()
    waits = [guest.call("start", "porch", "/once-seen", text) for text in ("three", "four")]
    guest.call("ask", "porch", "/seen", "")
    reads = [reading(guest, read_later(guest, f"?{key}")) for key in (1, 0)]
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine"
    urls = [(0, f"http://client.svc.internal/later?{key}") for key in (0, 1)]
    assert [answer[each] for each in waits] == urls
    assert [answer[each] for each in reads] == [("ok", b"four"), ("ok", b"three")]


def test_answer_of_a_door_that_comes_later_is_taken_once(host: Host, porch: Porch) -> None:
    guest = Guest()
    first = guest.call("start", "porch", "/once-seen", "three")
    guest.call("ask", "porch", "/seen", "")
    taken = reading(guest, read_later(guest, "?0"))
    second = guest.call("start", "porch", "/never", "")
    again = [read_later(guest, query) for query in ("?0", "?2", "?" + "9" * 5000, "?-1", "")]
    statuses = [guest.call("incoming-response.status", each) for each in again]
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine" and answer[taken] == ("ok", b"three")
    assert [answer[each][1][-1] for each in (first, second)] == ["0", "1"]
    assert {answer[each] for each in statuses} == {404}


def test_failure_of_an_answer_that_comes_later_has_a_code(host: Host, porch: Porch) -> None:
    guest = Guest()
    large = guest.call("start", "porch", "/large", "")
    failed = read_later(guest, "?0")
    response = read_later(guest, "?http://client.svc.internal", path="/failure")
    fields = guest.call("fields.entries", guest.call("incoming-response.headers", response))
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine" and answer[large] == (0, "http://client.svc.internal/later?0")
    assert answer[failed] == ("ok", ("err", "connection-limit-reached"))
    assert answer[fields] == [("code", b"connection-limit-reached")]


@pytest.mark.parametrize("function", ["ask", "start"])
def test_one_host_call_is_answered_beside_the_maximum_of_requests(
    host: Host, porch: Porch, function: str
) -> None:
    guest = Guest()
    for _ in range(MAX_CONCURRENT_REQUESTS):
        guest.call("outgoing-handler/handle", new_request(guest, PORCH, "/never"), None)
    guest.call("ask", "porch", "/later", "")
    text = guest.call(function, "porch", "/slow", "one")
    guest.answer(b"fine")
    answer = through(host, porch, guest)
    assert answer.body == b"fine" and answer[text] == (200, "one")


@pytest.mark.parametrize(
    "door",
    ["other", "", "a.porch", "porch.svc.internal:80/x?", "user@porch", "porch:80", "127.0.0.1/", "PORCH\n"],
)
def test_one_host_call_reaches_only_doors(host: Host, porch: Porch, door: str) -> None:
    guest = Guest()
    nothing = guest.call("ask", door, "/", "body")
    none = guest.call("start", door, "/", "body")
    no_path = guest.call("ask", "porch", "//evil.example\r\n", "body")
    guest.answer(b"fine")
    answer = through(host, porch, guest, egress=("http://*.svc.internal", "http://127.0.0.1"))
    assert (answer[nothing], answer[none], answer[no_path], porch.asked) == (None, None, None, [])
