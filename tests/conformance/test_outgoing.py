"""wasi:http/outgoing-handler and the resources around it, against a real server."""

import asyncio

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.client import MOST, SERVER, call, new_request, set_authority_placeholder, take_response
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Client, Host
from tests.conformance.upstream import upstream


def test_response_has_status_headers_and_body(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/headers"), None)
    early = guest.call("future-incoming-response.get", future)
    response = take_response(guest, future)
    second = [guest.call("future-incoming-response.get", future) for _ in range(2)]
    status = guest.call("incoming-response.status", response)
    headers = guest.call("incoming-response.headers", response)
    entries = guest.call("fields.entries", headers)
    immutable = guest.call("fields.append", headers, "z", b"")
    body = guest.call("incoming-response.consume", response)
    twice = guest.call("incoming-response.consume", response)
    stream = guest.call("incoming-body.stream", body)
    read = guest.call("input-stream.blocking-read", stream, 10)
    guest.drop(stream)
    trailers = guest.call("future-trailers.get", guest.call("incoming-body.finish", body))
    guest.drop(headers, response, future)
    guest.answer(b"fine")
    answer, _ = call(host, guest)
    assert answer[early] is None
    assert answer[response] == ("ok", ("ok", HANDLE)) and [answer[s] for s in second] == [("err", None)] * 2
    assert answer[status] == 404
    assert answer[entries] == [("x", b"1"), ("y", b"a"), ("x", b"2"), ("content-length", b"0")]
    assert answer[immutable] == ("err", "immutable")
    assert (answer[body], answer[twice]) == (("ok", HANDLE), ("err", None))
    assert answer[read] == ("err", "closed") and answer[trailers] == ("ok", ("ok", None))
    assert answer.body == b"fine" and answer.report.outcome == "ok"


def sending(*fields: tuple[str, bytes]) -> tuple[Guest, Step, Step, Step]:
    """A guest that has sent the head of a request to `/echo`: the body, its stream and the response."""
    guest = Guest()
    request = new_request(guest, SERVER, "/echo", *fields, method="post")
    body = guest.call("outgoing-request.body", request)
    guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    return guest, body, stream, guest.call("outgoing-handler/handle", request, None)


@pytest.mark.parametrize("announced", [False, True])
def test_request_body_is_streamed(host: Host, announced: bool) -> None:
    guest, body, stream, future = sending(*[("content-length", b"8")] * announced)
    for part in (b"one,", b"two."):
        guest.call("output-stream.blocking-write-and-flush", stream, part)
    finished = guest.finish(body, stream)
    response = take_response(guest, future)
    source = guest.call("incoming-body.stream", guest.call("incoming-response.consume", response))
    read = guest.call("input-stream.blocking-read", source, MOST)
    answer, server = call(host, guest)
    head, content = server.requests[0]
    assert answer[finished] == ("ok", None) and answer[read] == ("ok", b"one,two.") == ("ok", content)
    assert head.startswith("POST /echo HTTP/1.1\r\n")
    assert ("content-length: 8" in head) is announced
    assert ("transfer-encoding: chunked" in head) is not announced


def test_outgoing_body_can_be_taken_once(host: Host) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    first, second = (guest.call("outgoing-request.body", request) for _ in range(2))
    answer = host.run(guest)
    assert (answer[first], answer[second]) == (("ok", HANDLE), ("err", None))


@pytest.mark.parametrize(("announced", "written"), [(8, 3), (2, 3)])
def test_request_length_differs_from_content_length_fails(host: Host, announced: int, written: int) -> None:
    guest, body, stream, future = sending(("content-length", str(announced).encode()))
    wrote = guest.call("output-stream.blocking-write-and-flush", stream, bytes(written))
    if written > announced:
        code = guest.call("http-error-code", wrote["err"]["last-operation-failed"])
        guest.drop(wrote["err"]["last-operation-failed"])
    finished = guest.finish(body, stream)
    response = take_response(guest, future)
    answer, _ = call(host, guest)
    assert answer[finished] == ("err", ("HTTP-request-body-size", written))
    if written > announced:
        assert answer[wrote] == ("err", ("last-operation-failed", HANDLE))
        assert answer[code] == ("HTTP-request-body-size", written)
    assert answer[response] == ("ok", ("err", ("HTTP-request-body-size", written)))


def test_request_with_unfinished_body_fails(host: Host) -> None:
    guest, body, stream, future = sending()
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    guest.drop(stream, body)
    response = take_response(guest, future)
    answer, server = call(host, guest)
    assert answer[response] == ("ok", ("err", "HTTP-protocol-error")) and server.requests == []


def test_send_or_drop_request_before_headers_traps(host: Host) -> None:
    for end in ("send", "drop"):
        guest = Guest()
        request = new_request(guest, "localhost", "/")
        guest.call("outgoing-request.headers", request)
        if end == "send":
            guest.call("outgoing-handler/handle", request, None)
        else:
            guest.drop(request)
        guest.answer()
        answer = host.run(guest)
        assert answer.status is None
        assert "outgoing-request" in answer.detail and "headers" in answer.detail


def test_drop_response_before_headers_traps(host: Host) -> None:
    guest = Guest()
    response = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/headers"), None)
    )
    guest.call("incoming-response.headers", response)
    guest.drop(response)
    guest.answer()
    answer, _ = call(host, guest)
    assert answer.status is None and "incoming-response was dropped before its headers" in answer.detail


def test_response_can_arrive_before_request_is_complete(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, SERVER, "/early", ("content-length", b"4"), method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    guest.call("output-stream.blocking-write-and-flush", stream, b"more")
    guest.finish(body, stream)
    source = guest.call(
        "incoming-body.stream", guest.call("incoming-response.consume", take_response(guest, future))
    )
    read = guest.call("input-stream.blocking-read", source, MOST)
    answer, _ = call(host, guest)
    assert answer[read] == ("ok", b"early")


def test_response_can_be_read_before_request_is_written(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, SERVER, "/early", ("content-length", b"4"), method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    source = guest.call(
        "incoming-body.stream", guest.call("incoming-response.consume", take_response(guest, future))
    )
    read = guest.call("input-stream.blocking-read", source, MOST)
    guest.call("output-stream.blocking-write-and-flush", stream, b"more")
    guest.finish(body, stream)
    second = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/headers"), None)
    )
    answer, server = call(host, guest)
    assert answer[read] == ("ok", b"early") and answer[second] == ("ok", ("ok", HANDLE))
    assert sorted(sent for _, sent in server.requests) == [b"", b"more"]


def test_redirects_are_not_followed(host: Host) -> None:
    guest = Guest()
    response = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/redirect"), None)
    )
    status = guest.call("incoming-response.status", response)
    answer, server = call(host, guest)
    assert answer[status] == 302 and len(server.requests) == 1


def test_response_trailers_are_dropped(host: Host) -> None:
    guest = Guest()
    response = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/trailers"), None)
    )
    body = guest.call("incoming-response.consume", response)
    stream = guest.call("incoming-body.stream", body)
    read = guest.call("input-stream.blocking-read", stream, MOST)
    end = guest.call("input-stream.blocking-read", stream, MOST)
    guest.drop(stream)
    trailers = guest.call("future-trailers.get", guest.call("incoming-body.finish", body))
    answer, _ = call(host, guest)
    assert (answer[read], answer[end]) == (("ok", b"body"), ("err", "closed"))
    assert answer[trailers] == ("ok", ("ok", None))


def test_dropped_future_cancels_request(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/hang"), None)
    source = guest.call("incoming-body.stream", guest.call("incoming-request.consume", guest.request))
    guest.call("input-stream.blocking-read", source, 1)
    guest.drop(future)
    guest.answer(b"gave up")

    async def run() -> Answer:
        async with upstream() as server:
            set_authority_placeholder(guest, server.authority)
            client = Client("POST", headers=[(b"transfer-encoding", b"chunked")], open=True)
            asked = asyncio.create_task(host.ask(guest, client, egress=(f"http://{server.authority}",)))
            await server.arrived.wait()
            client.feed(b"go on")
            await server.closed.wait()
            return await asked

    assert host.wait(run()).body == b"gave up"


def test_immediately_dropped_future_sends_nothing(host: Host) -> None:
    guest = Guest()
    guest.drop(guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/headers"), None))
    sent = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/redirect"), None)
    )
    guest.call("pollable.block", guest.call("subscribe-duration", 100_000_000))
    answer, server = call(host, guest)
    assert answer[sent] == ("ok", ("ok", HANDLE))
    assert [head.split(" ")[1] for head, _ in server.requests] == ["/redirect"]


def test_dropped_response_releases_body(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/half"), None)
    guest.drop(take_response(guest, future), future)
    guest.answer(b"fine")
    answer, server = call(host, guest)
    assert answer.body == b"fine" and answer.report.outcome == "ok" and len(server.requests) == 1
