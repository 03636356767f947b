"""`output-stream` of wasi:io/streams, as the body of a response."""

import pytest

from engine.wasm.execution.buffers import BUFFER_BYTES
from tests.conformance.canonical import HANDLE
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Client, Host

CHUNK = 4096
OVER = 1 << 20


def unsent(guest: Guest) -> tuple[Step, Step, Step]:
    """Return a response that is not set yet, so its bytes are not drained, its body and its stream."""
    response = guest.call("outgoing-response.constructor", guest.call("fields.constructor"))
    body = guest.call("outgoing-response.body", response)
    return response, body, guest.call("outgoing-body.write", body)


def give(guest: Guest, response: Step) -> None:
    guest.call("response-outparam.set", guest.outparam, ("ok", response))


def fill(guest: Guest, stream: Step) -> None:
    """Write until the buffer is full."""
    for _ in range(BUFFER_BYTES // CHUNK):
        guest.call("output-stream.blocking-write-zeroes-and-flush", stream, CHUNK, report=False)


def test_write_uses_up_permit(either_host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    permit = guest.call("output-stream.check-write", stream)
    steps = [
        guest.call("output-stream.write", stream, b"one,"),
        guest.call("output-stream.write", stream, b""),
        guest.call("output-stream.write", stream, b"two,"),
        guest.call("output-stream.write-zeroes", stream, 2),
    ]
    finished = guest.finish(body, stream)
    answer = either_host.run(guest)
    assert answer[permit][0] == "ok" and answer[permit][1] >= CHUNK
    assert [answer[step] for step in [*steps, finished]] == [("ok", None)] * 5
    assert answer.body == b"one,two,\0\0" and answer.report.outcome == "ok"


@pytest.mark.parametrize("content", [b"only ascii" * 100, bytes(range(256)) * 16], ids=["text", "bytes"])
def test_written_bytes_are_sent_unchanged(either_host: Host, content: bytes) -> None:
    guest = Guest()
    body, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, content)
    guest.call("output-stream.check-write", stream)
    guest.call("output-stream.write", stream, content)
    guest.finish(body, stream)
    assert either_host.run(guest).body == content * 2


def test_write_without_permit_traps(either_host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    steps = [
        guest.call("output-stream.write", stream, b""),
        guest.call("output-stream.write-zeroes", stream, 0),
    ]
    guest.finish(body, stream)
    answer = either_host.run(guest)
    assert [answer[step] for step in steps] == [("ok", None)] * 2 and answer.body == b""


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", ["write", "write-zeroes"])
def test_write_above_permit_traps(either_host: Host, name: str, checked: bool) -> None:
    guest = Guest()
    _, stream = guest.body()
    if checked:
        guest.call("output-stream.check-write", stream)
    much = OVER if checked else 1
    step = guest.call(f"output-stream.{name}", stream, bytes(much) if name == "write" else much)
    answer = either_host.run(guest)
    assert not answer.reached(step) and "check-write permitted" in answer.detail
    assert answer.report.outcome == "guest-failed" and not answer.ended


def test_permit_covers_bytes_of_several_writes(either_host: Host) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.call("output-stream.check-write", stream)
    first = guest.call("output-stream.write-zeroes", stream, CHUNK)
    for _ in range(BUFFER_BYTES // CHUNK):
        last = guest.call("output-stream.write-zeroes", stream, CHUNK)
    answer = either_host.run(guest)
    assert answer[first] == ("ok", None) and not answer.reached(last)


@pytest.mark.parametrize("name", ["blocking-write-and-flush", "blocking-write-zeroes-and-flush"])
def test_blocking_write_above_4096_bytes_traps(either_host: Host, name: str) -> None:
    guest = Guest()
    _, stream = guest.body()
    zeroes = name == "blocking-write-zeroes-and-flush"
    steps = [
        guest.call(f"output-stream.{name}", stream, size if zeroes else bytes(size)) for size in (0, 1, CHUNK)
    ]
    too_large = guest.call(f"output-stream.{name}", stream, CHUNK + 1 if zeroes else bytes(CHUNK + 1))
    answer = either_host.run(guest)
    assert [answer[step] for step in steps] == [("ok", None)] * 3
    assert not answer.reached(too_large) and "at most 4096" in answer.detail
    assert answer.body == bytes(CHUNK + 1)


def test_full_buffer_permits_nothing_until_drained(either_host: Host) -> None:
    guest = Guest()
    response, body, stream = unsent(guest)
    fill(guest, stream)
    full = guest.call("output-stream.check-write", stream)
    pollable = guest.call("output-stream.subscribe", stream)
    before = guest.call("pollable.ready", pollable)
    flushed = guest.call("output-stream.flush", stream)
    give(guest, response)
    guest.call("pollable.block", pollable)
    after, room = guest.call("pollable.ready", pollable), guest.call("output-stream.check-write", stream)
    guest.drop(pollable)
    guest.finish(body, stream)
    answer = either_host.run(guest)
    assert (answer[full], answer[before], answer[after]) == (("ok", 0), False, True)
    assert answer[flushed] == ("ok", None) and answer[room][1] > 0 and len(answer.body) == BUFFER_BYTES


@pytest.mark.parametrize(
    ("last", "arguments", "written"),
    [
        ("blocking-write-and-flush", [b"more"], b"more"),
        ("blocking-write-zeroes-and-flush", [4], bytes(4)),
        ("blocking-flush", [], b""),
    ],
)
def test_blocking_write_waits_for_buffer_space(
    either_host: Host, last: str, arguments: list[object], written: bytes
) -> None:
    guest = Guest()
    response, body, stream = unsent(guest)
    fill(guest, stream)
    full = guest.call("output-stream.check-write", stream)
    give(guest, response)
    result = guest.call(f"output-stream.{last}", stream, *arguments)
    guest.finish(body, stream)
    answer = either_host.run(guest)
    assert answer[full] == ("ok", 0) and answer[result] == ("ok", None)
    assert answer.body == bytes(BUFFER_BYTES) + written


def test_flush_sends_written_bytes(either_host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    guest.call("output-stream.check-write", stream)
    guest.call("output-stream.write", stream, b"first")
    flushed = guest.call("output-stream.flush", stream)
    blocked = guest.call("output-stream.blocking-flush", stream)
    guest.call("pollable.block", guest.call("subscribe-duration", 50_000_000))
    guest.call("output-stream.blocking-write-and-flush", stream, b"second")
    guest.finish(body, stream)
    answer = either_host.run(guest)
    assert answer[flushed] == answer[blocked] == ("ok", None)
    assert answer.chunks == [b"first", b"second"]


OPERATIONS = [
    ("check-write",),
    ("write", b"x"),
    ("write-zeroes", 1),
    ("blocking-write-and-flush", b"x"),
    ("blocking-write-zeroes-and-flush", 1),
    ("flush",),
    ("blocking-flush",),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation[0]))
def test_output_stream_fails_once_then_is_closed(either_host: Host, operation: tuple[object, ...]) -> None:
    guest = Guest()
    _, stream = guest.body(200, ("content-length", b"3"))
    guest.call("output-stream.check-write", stream)
    failed = guest.call("output-stream.write", stream, b"four")
    text = guest.call("error.to-debug-string", failed["err"]["last-operation-failed"])
    code = guest.call("http-error-code", failed["err"]["last-operation-failed"])
    files = guest.call("filesystem-error-code", failed["err"]["last-operation-failed"])
    sockets = guest.call("network-error-code", failed["err"]["last-operation-failed"])
    guest.drop(failed["err"]["last-operation-failed"])
    name, *arguments = operation
    closed = [guest.call(f"output-stream.{name}", stream, *arguments) for _ in range(2)]
    ready = guest.call("pollable.ready", guest.call("output-stream.subscribe", stream))
    answer = either_host.run(guest)
    assert answer[failed] == ("err", ("last-operation-failed", HANDLE))
    assert answer[code] == ("HTTP-response-body-size", 4) and "HTTP-response-body-size" in answer[text]
    assert (answer[files], answer[sockets]) == (None, None)
    assert [answer[step] for step in closed] == [("err", "closed")] * 2 and answer[ready] is True


def until_the_client_leaves(guest: Guest) -> Client:
    """Wait until the client has disconnected during its request; return such a client."""
    source = guest.call("incoming-body.stream", guest.call("incoming-request.consume", guest.request))
    waits = guest.call("input-stream.subscribe", source)
    guest.call("pollable.block", waits)
    client = upload()
    client.after(waits, Client.leave)
    return client


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation[0]))
def test_client_disconnect_closes_stream(either_host: Host, operation: tuple[object, ...]) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, b"first")
    guest.call("output-stream.check-write", stream)
    client = until_the_client_leaves(guest)
    name, *arguments = operation
    closed = guest.call(f"output-stream.{name}", stream, *arguments)
    ready = guest.call("pollable.ready", guest.call("output-stream.subscribe", stream))
    answer = either_host.run(guest, client)
    assert answer[closed] == ("err", "closed") and answer[ready] is True
    assert answer.report.outcome == "client-gone" and answer.body == b"first"


def test_finish_after_client_disconnect_fails(either_host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    client = until_the_client_leaves(guest)
    finished = guest.finish(body, stream)
    answer = either_host.run(guest, client)
    assert answer[finished] == ("err", "connection-terminated")
    assert answer.report.outcome == "client-gone" and not answer.ended


def splicing() -> tuple[Guest, Step, Step, Step]:
    guest = Guest()
    incoming = guest.call("incoming-request.consume", guest.request)
    source = guest.call("incoming-body.stream", incoming)
    body, stream = guest.body()
    return guest, source, body, stream


def upload(*pieces: bytes, more: bool = False) -> Client:
    return Client(
        "POST", headers=[(b"transfer-encoding", b"chunked")], pieces=list(pieces), open=more or not pieces
    )


def test_splice_moves_available_bytes_up_to_maximum(either_host: Host) -> None:
    guest, source, body, stream = splicing()
    nothing = guest.call("output-stream.splice", stream, source, 100)
    waited = guest.call("output-stream.blocking-splice", stream, source, 3)
    some = guest.call("output-stream.splice", stream, source, 2)
    none = guest.call("output-stream.splice", stream, source, 0)
    rest = guest.call("output-stream.blocking-splice", stream, source, (1 << 64) - 1)
    end = [
        guest.call(f"output-stream.{name}", stream, source, count)
        for name in ("splice", "blocking-splice")
        for count in (0, 1)
    ]
    guest.finish(body, stream)
    answer = either_host.run(guest, upload(b"abcdefgh"))
    assert answer[nothing] == ("ok", 0)
    assert [answer[step] for step in (waited, some, none, rest)] == [("ok", n) for n in (3, 2, 0, 3)]
    assert [answer[step] for step in end] == [("err", "closed")] * 4
    assert answer.body == b"abcdefgh"


def test_blocking_splice_waits_for_source(either_host: Host) -> None:
    guest, source, body, stream = splicing()
    pollable = guest.call("input-stream.subscribe", source)
    before = guest.call("pollable.ready", pollable)
    moved = guest.call("output-stream.blocking-splice", stream, source, 100)
    ended = guest.call("output-stream.blocking-splice", stream, source, 100)
    guest.finish(body, stream)
    client = upload(more=True)
    client.after(before, lambda client: client.feed(b"late", more=True))
    client.after(moved, lambda client: client.feed(b""))
    answer = either_host.run(guest, client)
    assert answer[before] is False
    assert (answer[moved], answer[ended]) == (("ok", 4), ("err", "closed"))


def test_blocking_splice_waits_for_buffer_space(either_host: Host) -> None:
    guest = Guest()
    source = guest.call("incoming-body.stream", guest.call("incoming-request.consume", guest.request))
    response, body, stream = unsent(guest)
    guest.call("pollable.block", guest.call("input-stream.subscribe", source))
    fill(guest, stream)
    full = guest.call("output-stream.splice", stream, source, 3)
    give(guest, response)
    moved = guest.call("output-stream.blocking-splice", stream, source, 3)
    guest.finish(body, stream)
    answer = either_host.run(guest, upload(b"abc"))
    assert [answer[step] for step in (full, moved)] == [("ok", 0), ("ok", 3)]
    assert answer.body == bytes(BUFFER_BYTES) + b"abc"


def test_splice_reports_end_of_either_stream(either_host: Host) -> None:
    guest = Guest()
    stdin = guest.call("get-stdin")
    _, stream = guest.body(200, ("content-length", b"0"))
    closed_source = guest.call("output-stream.splice", stream, stdin, 1)
    guest.call("output-stream.check-write", stream)
    guest.call("output-stream.write", stream, b"x")
    closed_target = guest.call("output-stream.splice", stream, stdin, 1)
    blocked = guest.call("output-stream.blocking-splice", stream, stdin, 1)
    answer = either_host.run(guest)
    assert {answer[step] for step in (closed_source, closed_target, blocked)} == {("err", "closed")}


def test_dropped_stream_traps(either_host: Host) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.drop(stream)
    step = guest.call("output-stream.check-write", stream)
    answer = either_host.run(guest)
    assert not answer.reached(step) and "unknown handle" in answer.detail
