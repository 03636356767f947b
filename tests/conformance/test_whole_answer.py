"""A client that has the whole answer may go: it is no sign of anything."""

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
def test_a_client_that_leaves_with_its_whole_answer_has_not_left_too_early(
    host: Host, method: str, status: int, fields: list[tuple[str, bytes]], content: bytes
) -> None:
    """The guest has still to say that its body has ended; all that was announced has arrived."""
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


def test_a_client_that_leaves_before_the_last_byte_has_left(host: Host) -> None:
    guest = Guest()
    body, stream = guest.body(200, ("content-length", b"5"))
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    now = guest.call("monotonic-clock/now")
    guest.call("pollable.block", guest.call("subscribe-duration", 20_000_000))
    guest.finish(body, stream)
    client = Client()
    client.after(now, Client.leave)
    assert host.run(guest, client).report.outcome == "client-gone"
