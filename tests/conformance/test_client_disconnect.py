"""Disconnects of the client: after the complete response, they are not an error."""

from http import HTTPStatus

import pytest

from engine.wasm.execution.run_state import RunState
from engine.wasm.host.requests import CLIENT, fetch, response, settle_watches
from tests.conformance.guest import Guest
from tests.conformance.host import Client, Host
from tests.engine.exchanges import guest_request


@pytest.mark.parametrize(
    ("method", "status", "fields", "content"),
    [
        ("GET", 200, [("content-length", b"5")], b"whole"),
        ("HEAD", 200, [], b""),
        ("GET", 204, [], b""),
        ("GET", 304, [("content-length", b"5")], b""),
    ],
)
def test_disconnect_after_complete_response_succeeds(
    host: Host, method: str, status: int, fields: list[tuple[str, bytes]], content: bytes
) -> None:
    """The guest has not finished the body yet, but all declared bytes have arrived."""
    guest = Guest()
    body, stream = guest.body(status, *fields)
    if content:
        guest.call("output-stream.blocking-write-and-flush", stream, content)
    now = guest.call("monotonic-clock/now")
    guest.call("pollable.block", guest.call("subscribe-duration", 20_000_000))
    finished = guest.finish(body, stream)
    client = Client(method)
    client.after(now, Client.leave)
    answer = host.run(guest, client)
    assert answer.reached(finished) and answer.body == content
    assert (answer.report.outcome, answer.report.complete) == ("ok", True)


def test_disconnect_before_last_byte_is_client_gone(host: Host) -> None:
    guest = Guest()
    body, stream = guest.body(200, ("content-length", b"5"))
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    now = guest.call("monotonic-clock/now")
    guest.call("pollable.block", guest.call("subscribe-duration", 20_000_000))
    guest.finish(body, stream)
    client = Client()
    client.after(now, Client.leave)
    assert host.run(guest, client).report.outcome == "client-gone"


def test_requests_about_the_disconnect_share_one_answer() -> None:
    """A guest that sends many of them takes no memory of the host for each."""
    run = RunState(
        guest_request(),
        b"",
        lambda *call: None,
        None,
        has_body=False,
        call_door=lambda *call: None,
        wake=lambda: None,
    )
    for channel in range(1, 100):
        assert fetch(run, f"{channel}\0000\0GET\0http\0{CLIENT}\0/{channel}\0\0\0\0".encode()) == b""
    assert (len(run.watches), run.waiting) == (1, 1)
    assert response(run, 1) == b""
    settle_watches(run, HTTPStatus.NO_CONTENT)
    assert response(run, 1)[:4] == response(run, 99)[:4] == b"+204"
