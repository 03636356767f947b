"""wasi:http/outgoing-handler and the resources around it, against a real server."""

import asyncio
import socket
from typing import Any

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Answer, Client, Host
from tests.conformance.upstream import Upstream, upstream

MOST = (1 << 64) - 1
MILLISECOND = 1_000_000


def making(guest: Guest, authority: str, path: str, *fields: tuple[str, bytes], method: Any = "get") -> Step:
    """Make a request to a server."""
    request = guest.call("outgoing-request.constructor", guest.call("fields.from-list", list(fields)))
    guest.call("outgoing-request.set-method", request, method)
    guest.call("outgoing-request.set-scheme", request, "HTTP")
    guest.call("outgoing-request.set-authority", request, authority)
    guest.call("outgoing-request.set-path-with-query", request, path)
    return request


def taking(guest: Guest, future: Step) -> Step:
    """Wait for the answer and take it."""
    pollable = guest.call("future-incoming-response.subscribe", future)
    guest.call("pollable.block", pollable)
    guest.drop(pollable)
    return guest.call("future-incoming-response.get", future)


def call(host: Host, guest: Guest, **fields: Any) -> tuple[Answer, Upstream]:
    """Run a guest that calls `{server}`, which it may."""

    async def run() -> tuple[Answer, Upstream]:
        async with upstream() as server:
            fields.setdefault("egress", (f"http://{server.authority}",))
            _name(guest, server.authority)
            return await host.ask(guest, **fields), server

    return host.wait(run())


SERVER = "127.0.0.1:00000"
"""Stands for the server's authority until its port is known: as long as it."""


def _name(guest: Guest, authority: str) -> None:
    encoded = authority.encode().ljust(len(SERVER), b" ")
    assert len(authority) == len(SERVER), "a port of five digits"
    guest.static.data = [(at, c.replace(SERVER.encode(), encoded)) for at, c in guest.static.data]


def test_a_request_is_a_get_of_nothing_until_it_is_told(host: Host) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    steps = [
        guest.call(f"outgoing-request.{name}", request)
        for name in ("method", "path-with-query", "scheme", "authority")
    ]
    headers = guest.call("outgoing-request.headers", request)
    entries = guest.call("fields.entries", headers)
    answer = host.run(guest)
    assert [answer[step] for step in steps] == ["get", None, None, None] and answer[entries] == []


GOOD: dict[str, list[Any]] = {
    "method": [
        *("get", "head", "post", "put", "delete", "connect", "options", "trace", "patch"),
        ("other", "PURGE"),
        ("other", "M-SEARCH"),
    ],
    "scheme": [None, "HTTP", "HTTPS", ("other", "gopher"), ("other", "a+b-c.1")],
    "authority": [None, "a", "example.com:8080", "127.0.0.1", "[::1]:80", "a_b%20c", "a:"],
    "path-with-query": [None, "", "/", "/a?b=c&d[]=/?", "?q", "/%20", "*"],
}
BAD: dict[str, list[Any]] = {
    "method": [("other", name) for name in ("", " ", "A B", "A\r\nB", "Ä", "A:")],
    "scheme": [("other", name) for name in ("", "1a", "a b", "ä", "a:", "http://", "-a")],
    "authority": [
        "",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a:b",
        "[::1",
        "a\r\nb",
        "ä",
        "a\\b",
        "<a>",
        "a:80:80",
    ],
    "path-with-query": ["a b", "/a b", "/a\r\nb", "/ä", "/#a", "http://other/", "a", "/\0"],
}


@pytest.mark.parametrize("part", GOOD)
def test_what_is_set_can_be_read(host: Host, part: str) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    steps = [
        (
            guest.call(f"outgoing-request.set-{part}", request, value),
            guest.call(f"outgoing-request.{part}", request),
        )
        for value in GOOD[part]
    ]
    answer = host.run(guest)
    assert [answer[done] for done, _ in steps] == [("ok", None)] * len(steps)
    assert [answer[read] for _, read in steps] == GOOD[part]


@pytest.mark.parametrize("part", BAD)
def test_what_is_malformed_is_refused_and_changes_nothing(host: Host, part: str) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    before = GOOD[part][-1]
    guest.call(f"outgoing-request.set-{part}", request, before)
    refused = {str(v): guest.call(f"outgoing-request.set-{part}", request, v) for v in BAD[part]}
    after = guest.call(f"outgoing-request.{part}", request)
    answer = host.run(guest)
    assert [name for name, step in refused.items() if answer[step] != ("err", None)] == []
    assert answer[after] == before


@pytest.mark.parametrize("name", ["connect", "first-byte", "between-bytes"])
def test_time_outs_can_be_set_and_read(host: Host, name: str) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    before = guest.call(f"request-options.{name}-timeout", options)
    steps = []
    for value in (5, 0, MOST, None):
        done = guest.call(f"request-options.set-{name}-timeout", options, value)
        steps.append((done, guest.call(f"request-options.{name}-timeout", options), value))
    guest.drop(options)
    answer = host.run(guest)
    assert answer[before] is None
    assert [(answer[done], answer[read]) for done, read, _ in steps] == [
        (("ok", None), value) for _, _, value in steps
    ]


def test_an_answer_has_status_headers_and_a_body(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", making(guest, SERVER, "/headers"), None)
    early = guest.call("future-incoming-response.get", future)
    response = taking(guest, future)
    again = [guest.call("future-incoming-response.get", future) for _ in range(2)]
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
    assert answer[response] == ("ok", ("ok", HANDLE)) and [answer[s] for s in again] == [("err", None)] * 2
    assert answer[status] == 404
    assert answer[entries] == [("x", b"1"), ("y", b"a"), ("x", b"2"), ("content-length", b"0")]
    assert answer[immutable] == ("err", "immutable")
    assert (answer[body], answer[twice]) == (("ok", HANDLE), ("err", None))
    assert answer[read] == ("err", "closed") and answer[trailers] == ("ok", ("ok", None))
    assert answer.body == b"fine" and answer.report.outcome == "ok"


def sending(*fields: tuple[str, bytes]) -> tuple[Guest, Step, Step, Step]:
    """A guest that has sent the head of a request to `/echo`: the body, its stream, and the answer."""
    guest = Guest()
    request = making(guest, SERVER, "/echo", *fields, method="post")
    body = guest.call("outgoing-request.body", request)
    guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    return guest, body, stream, guest.call("outgoing-handler/handle", request, None)


@pytest.mark.parametrize("announced", [False, True])
def test_a_body_is_sent_as_it_is_written(host: Host, announced: bool) -> None:
    guest, body, stream, future = sending(*[("content-length", b"8")] * announced)
    for part in (b"one,", b"two."):
        guest.call("output-stream.blocking-write-and-flush", stream, part)
    finished = guest.finish(body, stream)
    response = taking(guest, future)
    source = guest.call("incoming-body.stream", guest.call("incoming-response.consume", response))
    read = guest.call("input-stream.blocking-read", source, MOST)
    answer, server = call(host, guest)
    head, content = server.requests[0]
    assert answer[finished] == ("ok", None) and answer[read] == ("ok", b"one,two.") == ("ok", content)
    assert head.startswith("POST /echo HTTP/1.1\r\n")
    assert ("content-length: 8" in head) is announced
    assert ("transfer-encoding: chunked" in head) is not announced


def test_a_requests_body_is_had_once(host: Host) -> None:
    guest = Guest()
    request = guest.call("outgoing-request.constructor", guest.call("fields.constructor"))
    first, second = (guest.call("outgoing-request.body", request) for _ in range(2))
    answer = host.run(guest)
    assert (answer[first], answer[second]) == (("ok", HANDLE), ("err", None))


@pytest.mark.parametrize(("announced", "written"), [(8, 3), (2, 3)])
def test_a_request_that_is_not_as_long_as_announced_fails(host: Host, announced: int, written: int) -> None:
    guest, body, stream, future = sending(("content-length", str(announced).encode()))
    wrote = guest.call("output-stream.blocking-write-and-flush", stream, bytes(written))
    if written > announced:
        code = guest.call("http-error-code", wrote["err"]["last-operation-failed"])
        guest.drop(wrote["err"]["last-operation-failed"])
    finished = guest.finish(body, stream)
    response = taking(guest, future)
    answer, _ = call(host, guest)
    assert answer[finished] == ("err", ("HTTP-request-body-size", written))
    if written > announced:
        assert answer[wrote] == ("err", ("last-operation-failed", HANDLE))
        assert answer[code] == ("HTTP-request-body-size", written)
    assert answer[response] == ("ok", ("err", ("HTTP-request-body-size", written)))


def test_a_request_whose_body_is_dropped_without_an_end_fails(host: Host) -> None:
    guest, body, stream, future = sending()
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    guest.drop(stream, body)
    response = taking(guest, future)
    answer, server = call(host, guest)
    assert answer[response] == ("ok", ("err", "HTTP-protocol-error")) and server.requests == []


def test_a_request_can_not_be_sent_or_dropped_before_its_headers(host: Host) -> None:
    for end in ("send", "drop"):
        guest = Guest()
        request = making(guest, "localhost", "/")
        guest.call("outgoing-request.headers", request)
        if end == "send":
            guest.call("outgoing-handler/handle", request, None)
        else:
            guest.drop(request)
        guest.answer()
        answer = host.run(guest)
        assert answer.status is None
        assert "outgoing-request" in answer.detail and "headers" in answer.detail


def test_a_response_can_not_be_dropped_before_its_headers(host: Host) -> None:
    guest = Guest()
    response = taking(guest, guest.call("outgoing-handler/handle", making(guest, SERVER, "/headers"), None))
    guest.call("incoming-response.headers", response)
    guest.drop(response)
    guest.answer()
    answer, _ = call(host, guest)
    assert answer.status is None and "incoming-response was dropped before its headers" in answer.detail


def test_an_answer_may_come_before_the_request_is_whole(host: Host) -> None:
    guest = Guest()
    request = making(guest, SERVER, "/early", ("content-length", b"4"), method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    future = guest.call("outgoing-handler/handle", request, None)
    guest.call("output-stream.blocking-write-and-flush", stream, b"more")
    guest.finish(body, stream)
    source = guest.call(
        "incoming-body.stream", guest.call("incoming-response.consume", taking(guest, future))
    )
    read = guest.call("input-stream.blocking-read", source, MOST)
    answer, _ = call(host, guest)
    assert answer[read] == ("ok", b"early")


def test_redirects_are_the_guests(host: Host) -> None:
    guest = Guest()
    response = taking(guest, guest.call("outgoing-handler/handle", making(guest, SERVER, "/redirect"), None))
    status = guest.call("incoming-response.status", response)
    answer, server = call(host, guest)
    assert answer[status] == 302 and len(server.requests) == 1


def test_trailers_of_an_answer_are_not_passed_on(host: Host) -> None:
    guest = Guest()
    response = taking(guest, guest.call("outgoing-handler/handle", making(guest, SERVER, "/trailers"), None))
    body = guest.call("incoming-response.consume", response)
    stream = guest.call("incoming-body.stream", body)
    read = guest.call("input-stream.blocking-read", stream, MOST)
    end = guest.call("input-stream.blocking-read", stream, MOST)
    guest.drop(stream)
    trailers = guest.call("future-trailers.get", guest.call("incoming-body.finish", body))
    answer, _ = call(host, guest)
    assert (answer[read], answer[end]) == (("ok", b"body"), ("err", "closed"))
    assert answer[trailers] == ("ok", ("ok", None))


def test_what_egress_does_not_name_is_denied(host: Host) -> None:
    guest = Guest()
    denied = guest.call("outgoing-handler/handle", making(guest, SERVER, "/headers"), None)
    answer, server = call(host, guest, egress=())
    assert answer[denied] == ("err", "HTTP-request-denied") and server.requests == []
    assert any("egress" in text for _, text in answer.lines)


@pytest.mark.parametrize("missing", ["authority", "scheme"])
def test_a_request_that_leads_nowhere_is_refused(host: Host, missing: str) -> None:
    guest = Guest()
    request = making(guest, "example.com", "/")
    value = None if missing == "authority" else ("other", "gopher")
    guest.call(f"outgoing-request.set-{missing}", request, value)
    refused = guest.call("outgoing-handler/handle", request, None)
    assert host.run(guest)[refused] == ("err", "HTTP-request-URI-invalid")


def test_connect_is_refused(host: Host) -> None:
    guest = Guest()
    request = making(guest, "localhost", "/", method="connect")
    refused = guest.call("outgoing-handler/handle", request, None)
    answer = host.run(guest, egress=("http://localhost",))
    assert answer[refused] == ("err", "HTTP-request-method-invalid")


def failing(host: Host, authority: str) -> Any:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", making(guest, authority, "/"), None)
    response = taking(guest, future)
    return host.run(guest, egress=(f"http://{authority}",))[response]


def test_a_port_that_nobody_listens_on_refuses_the_connection(host: Host) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        authority = f"127.0.0.1:{free.getsockname()[1]}"
        assert failing(host, authority) == ("ok", ("err", "connection-refused"))


def test_a_name_without_an_address_is_a_dns_error(host: Host) -> None:
    assert failing(host, "nowhere.invalid") == ("ok", ("err", ("DNS-error", (None, None))))


@pytest.mark.parametrize(
    ("path", "code"),
    [("/garbage", "HTTP-protocol-error"), ("/nothing", "HTTP-response-incomplete")],
)
def test_a_server_that_does_not_answer_properly(host: Host, path: str, code: str) -> None:
    guest = Guest()
    response = taking(guest, guest.call("outgoing-handler/handle", making(guest, SERVER, path), None))
    answer, _ = call(host, guest)
    assert answer[response] == ("ok", ("err", code))


def test_a_time_out_for_the_first_byte(host: Host) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-first-byte-timeout", options, 50 * MILLISECOND)
    response = taking(guest, guest.call("outgoing-handler/handle", making(guest, SERVER, "/hang"), options))
    answer, _ = call(host, guest)
    assert answer[response] == ("ok", ("err", "connection-read-timeout"))


def reading_half(path: str, **timeouts: int) -> tuple[Guest, list[Step]]:
    guest = Guest()
    options = guest.call("request-options.constructor")
    for name, value in timeouts.items():
        guest.call(f"request-options.set-{name.replace('_', '-')}-timeout", options, value)
    future = guest.call("outgoing-handler/handle", making(guest, SERVER, path), options)
    body = guest.call("incoming-response.consume", taking(guest, future))
    stream = guest.call("incoming-body.stream", body)
    steps = [guest.call("input-stream.blocking-read", stream, MOST) for _ in range(2)]
    code = guest.call("http-error-code", steps[1]["err"]["last-operation-failed"])
    steps.append(guest.call("input-stream.blocking-read", stream, MOST))
    guest.drop(stream)
    trailers = guest.call("incoming-body.finish", body)
    return guest, [*steps, code, guest.call("future-trailers.get", trailers)]


@pytest.mark.parametrize(
    ("path", "timeouts", "code"),
    [
        ("/half", {"between_bytes": 50 * MILLISECOND}, "connection-read-timeout"),
        (
            "/half",
            {"first_byte": 60_000 * MILLISECOND, "between_bytes": 50 * MILLISECOND},
            "connection-read-timeout",
        ),
        ("/half?cut", {}, "HTTP-response-incomplete"),
    ],
)
def test_an_answer_that_breaks_off_fails_once(
    host: Host, path: str, timeouts: dict[str, int], code: str
) -> None:
    guest, (first, failed, closed, told, trailers) = reading_half(path, **timeouts)
    answer, _ = call(host, guest)
    assert answer[first] == ("ok", b"half")
    assert answer[failed] == ("err", ("last-operation-failed", HANDLE)) and answer[closed] == (
        "err",
        "closed",
    )
    assert answer[told] == code and answer[trailers] == ("ok", ("err", code))


def test_the_first_bytes_time_out_does_not_end_a_body(host: Host) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-first-byte-timeout", options, 1500 * MILLISECOND)
    future = guest.call("outgoing-handler/handle", making(guest, SERVER, "/half"), options)
    stream = guest.call(
        "incoming-body.stream", guest.call("incoming-response.consume", taking(guest, future))
    )
    guest.call("input-stream.blocking-read", stream, MOST)
    pollable = guest.call("input-stream.subscribe", stream)
    positions = guest.call("poll", [pollable, guest.call("subscribe-duration", 1800 * MILLISECOND)])
    answer, _ = call(host, guest)
    assert answer[positions] == [1]


def test_a_time_out_for_the_connection(host: Host) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-connect-timeout", options, 50 * MILLISECOND)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        authority = f"127.0.0.1:{full.getsockname()[1]}"
        future = guest.call("outgoing-handler/handle", making(guest, authority, "/"), options)
        response = taking(guest, future)
        answer = host.run(guest, egress=(f"http://{authority}",))
    assert answer[response] == ("ok", ("err", "connection-timeout"))


def test_an_answer_that_is_not_waited_for_is_given_up(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", making(guest, SERVER, "/hang"), None)
    source = guest.call("incoming-body.stream", guest.call("incoming-request.consume", guest.request))
    guest.call("input-stream.blocking-read", source, 1)
    guest.drop(future)
    guest.answer(b"gave up")

    async def run() -> Answer:
        async with upstream() as server:
            _name(guest, server.authority)
            client = Client("POST", headers=[(b"transfer-encoding", b"chunked")], open=True)
            asked = asyncio.create_task(host.ask(guest, client, egress=(f"http://{server.authority}",)))
            await server.arrived.wait()
            client.feed(b"go on")
            await server.closed.wait()
            return await asked

    assert host.wait(run()).body == b"gave up"


def test_a_dropped_answer_lets_go_of_its_body(host: Host) -> None:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", making(guest, SERVER, "/half"), None)
    guest.drop(taking(guest, future), future)
    guest.answer(b"fine")
    answer, server = call(host, guest)
    assert answer.body == b"fine" and answer.report.outcome == "ok" and len(server.requests) == 1
