"""Disconnects of the client: after the complete response, they are not an error."""

import pytest

from tests.conformance.guest import Guest
from tests.conformance.host import Client, Host


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
