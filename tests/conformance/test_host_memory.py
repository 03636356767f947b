"""Limits of host memory held for a guest, which the memory limit does not include."""

import asyncio
from collections.abc import Awaitable

import pytest

from engine.door import DoorRequest, DoorResponse
from engine.wasm.execution.run_state import MAX_HELD_BYTES
from engine.wasm.outbound.door_calls import DoorBinding
from engine.wasm.outbound.messages import MAX_CONCURRENT_REQUESTS
from tests.conformance.client import SERVER, call, new_request, take_response
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Host

PORCH = "porch.svc.internal"
LARGE = 8 << 20
MAX_UNSENT_MESSAGES = 128
MAX_FIELDS_BYTES = 2 << 20
PART = 4096


class Porch:
    """A Door that responds with as many bytes as its path says; never to `/never`."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        self.asked += 1
        if request.path == "/never":
            return self._never()
        return DoorResponse(200, bytes(int(request.path[1:])))

    async def _never(self) -> DoorResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def aclose(self) -> None:
        """Do nothing: no resource is open."""


def through(host: Host, guest: Guest) -> tuple[Answer, Porch]:
    porch = Porch()
    return host.run(guest, doors={"porch": DoorBinding(porch, LARGE)}), porch


def repeat(guest: Guest, times: int, *calls: tuple[object, ...]) -> None:
    """Repeat these calls."""
    guest.code("(local.set $i (i32.const 0)) (loop $more")
    for name, *arguments in calls:
        guest.call(str(name), *arguments, report=False)
    guest.code("(local.set $i (i32.add (local.get $i) (i32.const 1)))")
    guest.code(f"(br_if $more (i32.lt_u (local.get $i) (i32.const {times}))))")


def asking(guest: Guest, path: str) -> Step:
    return guest.call("outgoing-handler/handle", new_request(guest, PORCH, path), None)


@pytest.mark.parametrize(("held", "ended"), [(MAX_UNSENT_MESSAGES, False), (MAX_UNSENT_MESSAGES + 1, True)])
def test_too_many_unsent_responses_trap(host: Host, held: int, ended: bool) -> None:
    guest = Guest()
    for _ in range(MAX_UNSENT_MESSAGES):
        guest.drop(guest.call("outgoing-response.constructor", guest.call("fields.constructor")))
    guest.code("(local.set $i (i32.const 0)) (loop $more")
    fields = guest.call("fields.constructor", report=False)
    guest.call("outgoing-response.constructor", fields, report=False)
    guest.code("(local.set $i (i32.add (local.get $i) (i32.const 1)))")
    guest.code(f"(br_if $more (i32.lt_u (local.get $i) (i32.const {held}))))")
    last = guest.call("get-arguments")
    answer = host.run(guest)
    assert answer.reached(last) != ended and ("requests and responses" in answer.detail) == ended


@pytest.mark.parametrize("dropped", [True, False])
def test_header_fields_are_charged_until_dropped(host: Host, dropped: bool) -> None:
    guest = Guest()
    guest.code("(local.set $i (i32.const 0)) (loop $more")
    fields = guest.call("fields.from-list", [("a" * 60_000, b"")], report=False)
    clone = guest.call("fields.clone", fields, report=False)
    guest.call("fields.set", clone, "b", [b"c"], report=False)
    if dropped:
        guest.drop(clone, fields)
    guest.code("(local.set $i (i32.add (local.get $i) (i32.const 1)))")
    guest.code(f"(br_if $more (i32.lt_u (local.get $i) (i32.const {MAX_FIELDS_BYTES // 60_000}))))")
    last = guest.call("get-arguments")
    answer = host.run(guest)
    assert answer.reached(last) == dropped and ("more than 2 MiB" in answer.detail) != dropped


def test_concurrent_requests_are_limited(host: Host) -> None:
    """Pending requests count, started or not; a dropped one frees its place when it has ended."""
    guest = Guest()
    requests = [asking(guest, "/never") for _ in range(MAX_CONCURRENT_REQUESTS)]
    result = asking(guest, "/never")
    guest.call("pollable.block", guest.call("subscribe-duration", 1_000_000))  # all begin
    guest.drop(requests[0])
    for _ in range(10):  # What was dropped ends within a few turns of the event loop, which may stand still.
        guest.call("pollable.block", guest.call("subscribe-duration", 15_000_000))
    again, refused_again = asking(guest, "/never"), asking(guest, "/never")
    guest.answer(b"fine")
    answer, _ = through(host, guest)
    assert answer[result] == answer[refused_again] == ("err", "connection-limit-reached")
    assert answer[again][0] == "ok" and answer.body == b"fine"


def test_unfinished_door_requests_above_memory_limit_are_rejected(host: Host) -> None:
    guest = Guest()
    futures = []
    for _ in range(MAX_HELD_BYTES // LARGE + 2):
        request = new_request(guest, PORCH, "/0", method="post")
        stream = guest.call("outgoing-body.write", guest.call("outgoing-request.body", request))
        futures.append(guest.call("outgoing-handler/handle", request, None))
        repeat(guest, LARGE // PART, ("output-stream.blocking-write-zeroes-and-flush", stream, PART))
    answers = [guest.call("future-incoming-response.get", future) for future in futures]
    guest.answer(b"fine")
    answer, porch = through(host, guest)
    limited = ("ok", ("err", "connection-limit-reached"))
    assert {answer[step] for step in answers} == {None, limited} and porch.asked == 0
    assert answer.body == b"fine"


def test_unread_responses_above_memory_limit_are_rejected(host: Host) -> None:
    guest = Guest()
    answers = [take_response(guest, asking(guest, f"/{LARGE}")) for _ in range(MAX_HELD_BYTES // LARGE + 1)]
    guest.drop(answers[0])
    second = take_response(guest, asking(guest, f"/{LARGE}"))
    guest.answer(b"fine")
    answer, _ = through(host, guest)
    assert answer[answers[-1]] == ("ok", ("err", "connection-limit-reached"))
    assert [answer[step][1][0] for step in (*answers[:-1], second)] == ["ok"] * (len(answers))


def test_writer_is_unblocked_after_server_stops_reading(host: Host) -> None:
    """The server responds, or resets the connection, after the head; the body is far larger."""
    guest = Guest()
    request = new_request(guest, SERVER, "/refuse", method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    repeat(guest, (16 << 20) // PART, ("output-stream.blocking-write-zeroes-and-flush", stream, PART))
    finished = guest.finish(body, stream)
    received = take_response(guest, future)
    answer, _ = call(host, guest, run_limit_secs=10)
    assert answer[finished] == ("ok", None) and answer[received][0] == "ok"
