"""`input-stream` of wasi:io/streams, and the body of a request around it."""

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Client, Host

MOST = (1 << 64) - 1
READS = ["read", "blocking-read"]
SKIPS = ["skip", "blocking-skip"]


def reading() -> tuple[Guest, Step, Step]:
    guest = Guest()
    body = guest.call("incoming-request.consume", guest.request)
    return guest, body, guest.call("incoming-body.stream", body)


def upload(*pieces: bytes) -> Client:
    return Client("POST", headers=[(b"transfer-encoding", b"chunked")], pieces=list(pieces), open=not pieces)


def test_read_never_blocks_and_respects_maximum(either_host: Host) -> None:
    guest, _, stream = reading()
    nothing, none = guest.call("input-stream.read", stream, MOST), guest.call("input-stream.read", stream, 0)
    guest.call("pollable.block", guest.call("input-stream.subscribe", stream))
    some = guest.call("input-stream.read", stream, 3)
    zero = guest.call("input-stream.read", stream, 0)
    rest = guest.call("input-stream.read", stream, MOST)
    answer = either_host.run(guest, upload(b"abcdefgh"))
    assert (answer[nothing], answer[none], answer[zero]) == (("ok", b""),) * 3
    assert (answer[some], answer[rest]) == (("ok", b"abc"), ("ok", b"defgh"))


def test_blocking_read_waits_for_a_byte(either_host: Host) -> None:
    guest, _, stream = reading()
    before = guest.call("input-stream.blocking-read", stream, 0)
    read = guest.call("input-stream.blocking-read", stream, MOST)
    client = upload()
    client.after(before, lambda client: client.feed(b"late", more=True))
    answer = either_host.run(guest, client)
    assert (answer[before], answer[read]) == (("ok", b""), ("ok", b"late"))


def test_skip_returns_count_of_discarded_bytes(either_host: Host) -> None:
    guest, _, stream = reading()
    nothing = guest.call("input-stream.skip", stream, MOST)
    zero = guest.call("input-stream.blocking-skip", stream, 0)
    waited = guest.call("input-stream.blocking-skip", stream, 2)
    none = guest.call("input-stream.skip", stream, 0)
    some, read = guest.call("input-stream.skip", stream, 3), guest.call("input-stream.read", stream, 1)
    rest = guest.call("input-stream.blocking-skip", stream, MOST)
    answer = either_host.run(guest, upload(b"abcdefgh"))
    assert [answer[step] for step in (nothing, zero, waited, none, some, rest)] == [
        ("ok", count) for count in (0, 0, 2, 0, 3, 2)
    ]
    assert answer[read] == ("ok", b"f")


@pytest.mark.parametrize("name", READS + SKIPS)
def test_end_of_body_closes_stream(either_host: Host, name: str) -> None:
    guest, _, stream = reading()
    first = guest.call("input-stream.blocking-read", stream, MOST)
    pollable = guest.call("input-stream.subscribe", stream)
    guest.call("pollable.block", pollable)
    ended = [guest.call(f"input-stream.{name}", stream, count) for count in (MOST, 0, 1)]
    ready = guest.call("pollable.ready", pollable)
    answer = either_host.run(guest, upload(b"all"))
    assert answer[first] == ("ok", b"all") and answer[ready] is True
    assert [answer[step] for step in ended] == [("err", "closed")] * 3


def test_request_without_body_has_closed_stream(either_host: Host) -> None:
    guest, _, stream = reading()
    ready = guest.call("pollable.ready", guest.call("input-stream.subscribe", stream))
    read = guest.call("input-stream.read", stream, MOST)
    answer = either_host.run(guest)
    assert (answer[ready], answer[read]) == (True, ("err", "closed"))


@pytest.mark.parametrize("name", READS + SKIPS)
def test_truncated_body_fails_once_then_is_closed(either_host: Host, name: str) -> None:
    guest, body, stream = reading()
    first = guest.call("input-stream.blocking-read", stream, MOST)
    pollable = guest.call("input-stream.subscribe", stream)
    guest.call("pollable.block", pollable)
    failed = guest.call(f"input-stream.{name}", stream, MOST)
    code = guest.call("http-error-code", failed["err"]["last-operation-failed"])
    closed = [guest.call(f"input-stream.{name}", stream, MOST) for _ in range(2)]
    guest.drop(pollable, stream)
    trailers = guest.call("future-trailers.get", guest.call("incoming-body.finish", body))
    client = upload()
    client.feed(b"half", more=True)
    client.after(first, Client.leave)
    answer = either_host.run(guest, client)
    assert answer[first] == ("ok", b"half")
    assert answer[failed] == ("err", ("last-operation-failed", HANDLE))
    assert answer[code] == "connection-terminated"
    assert [answer[step] for step in closed] == [("err", "closed")] * 2
    assert answer[trailers] == ("ok", ("err", "connection-terminated"))


def test_long_body_arrives_in_order(either_host: Host) -> None:
    content = bytes(range(256)) * 1024
    guest, _, stream = reading()
    body, out = guest.body()
    for _ in range(64 * 3):
        guest.call("output-stream.blocking-splice", out, stream, 4096, report=False)
    guest.finish(body, out)
    answer = either_host.run(
        guest, upload(*(content[i : i + 50_000] for i in range(0, len(content), 50_000)))
    )
    assert answer.body == content and answer.report.bytes_in == len(content)


def test_request_body_and_stream_can_be_taken_once(either_host: Host) -> None:
    guest, body, _ = reading()
    steps = [guest.call("incoming-request.consume", guest.request) for _ in range(2)]
    steps += [guest.call("incoming-body.stream", body) for _ in range(2)]
    answer = either_host.run(guest)
    assert {answer[step] for step in steps} == {("err", None)}


def test_trailers_are_available_once_after_body(either_host: Host) -> None:
    guest, body, stream = reading()
    guest.call("input-stream.blocking-read", stream, MOST)
    guest.drop(stream)
    future = guest.call("incoming-body.finish", body)
    early = guest.call("future-trailers.get", future)
    pollable = guest.call("future-trailers.subscribe", future)
    before = guest.call("pollable.ready", pollable)
    guest.call("pollable.block", pollable)
    trailers = [guest.call("future-trailers.get", future) for _ in range(3)]
    guest.drop(pollable, future)
    client = upload()
    client.feed(b"first", more=True)
    client.after(before, lambda client: client.feed(b"unread"))
    answer = either_host.run(guest, client)
    assert (answer[early], answer[before]) == (None, False)
    assert [answer[step] for step in trailers] == [("ok", ("ok", None)), ("err", None), ("err", None)]


@pytest.mark.parametrize("pieces", [(), (b"x",), (bytes(60_000),) * 8])
def test_unread_body_can_be_finished(either_host: Host, pieces: tuple[bytes, ...]) -> None:
    guest = Guest()
    body = guest.call("incoming-request.consume", guest.request)
    future = guest.call("incoming-body.finish", body)
    guest.call("pollable.block", guest.call("future-trailers.subscribe", future))
    trailers = guest.call("future-trailers.get", future)
    guest.answer(b"done")
    answer = either_host.run(guest, upload(*pieces) if pieces else None)
    assert answer[trailers] == ("ok", ("ok", None)) and answer.body == b"done"


def test_finish_or_drop_body_before_stream_traps(either_host: Host) -> None:
    for end in ("finish", "drop"):
        guest, body, _ = reading()
        if end == "finish":
            guest.call("incoming-body.finish", body)
        else:
            guest.drop(body)
        guest.answer()
        answer = either_host.run(guest)
        assert answer.status is None and answer.report.outcome == "guest-failed"
        assert "incoming-body" in answer.detail and "input-stream" in answer.detail


def test_unread_resources_can_be_dropped_children_first(either_host: Host) -> None:
    guest, body, stream = reading()
    pollable = guest.call("input-stream.subscribe", stream)
    guest.drop(pollable, stream, body, guest.request)
    guest.answer(b"fine")
    answer = either_host.run(guest, upload(bytes(100_000), b"x"))
    assert answer.body == b"fine" and answer.report.outcome == "ok"


def test_body_outlives_request_resource(either_host: Host) -> None:
    guest, _, stream = reading()
    guest.drop(guest.request)
    read = guest.call("input-stream.blocking-read", stream, MOST)
    assert either_host.run(guest, upload(b"still here"))[read] == ("ok", b"still here")


def test_response_can_start_before_request_is_read(either_host: Host) -> None:
    guest, _, stream = reading()
    body, out = guest.body()
    first = guest.call("output-stream.blocking-write-and-flush", out, b"you said: ")
    guest.call("output-stream.blocking-splice", out, stream, MOST)
    guest.finish(body, out)
    client = upload()
    client.after(first, lambda client: client.feed(b"hello"))
    answer = either_host.run(guest, client)
    assert answer.chunks == [b"you said: ", b"hello"] and answer.ended
