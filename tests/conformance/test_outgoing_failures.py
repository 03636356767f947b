"""Error codes of failed requests through wasi:http/outgoing-handler."""

import socket
from typing import Any

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.client import MILLISECOND, MOST, SERVER, call, new_request, take_response
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Host


def test_request_outside_egress_is_denied(host: Host) -> None:
    guest = Guest()
    denied = guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/headers"), None)
    answer, server = call(host, guest, egress=())
    assert answer[denied] == ("err", "HTTP-request-denied") and server.requests == []
    assert any("egress" in text for _, text in answer.lines)


def test_denial_after_body_was_taken_is_reported_by_future(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, SERVER, "/", method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    early = guest.call("output-stream.blocking-write-and-flush", stream, b"early")
    future = guest.call("outgoing-handler/handle", request, None)
    late = [
        guest.call("output-stream.blocking-write-and-flush", stream, bytes(4096)) for _ in range(300)
    ]  # more than may wait anywhere
    guest.drop(stream)
    finished = guest.call("outgoing-body.finish", body, None)
    response = take_response(guest, future["ok"])
    answer, server = call(host, guest, egress=())
    assert server.requests == []
    assert {answer[step] for step in (early, *late, finished)} == {("ok", None)}
    assert answer[response] == ("ok", ("err", "HTTP-request-denied"))


@pytest.mark.parametrize("missing", ["authority", "scheme"])
def test_invalid_request_uri_is_rejected(host: Host, missing: str) -> None:
    guest = Guest()
    request = new_request(guest, "example.com", "/")
    value = None if missing == "authority" else ("other", "gopher")
    guest.call(f"outgoing-request.set-{missing}", request, value)
    result = guest.call("outgoing-handler/handle", request, None)
    assert host.run(guest)[result] == ("err", "HTTP-request-URI-invalid")


def test_connect_method_is_rejected(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, "localhost", "/", method="connect")
    result = guest.call("outgoing-handler/handle", request, None)
    answer = host.run(guest, egress=("http://localhost",))
    assert answer[result] == ("err", "HTTP-request-method-invalid")


def failing(host: Host, authority: str) -> Any:
    guest = Guest()
    future = guest.call("outgoing-handler/handle", new_request(guest, authority, "/"), None)
    response = take_response(guest, future)
    return host.run(guest, egress=(f"http://{authority}",))[response]


def test_closed_port_reports_connection_refused(host: Host) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        authority = f"127.0.0.1:{free.getsockname()[1]}"
        assert failing(host, authority) == ("ok", ("err", "connection-refused"))


def test_unresolvable_name_reports_dns_error(host: Host) -> None:
    assert failing(host, "nowhere.invalid") == ("ok", ("err", ("DNS-error", (None, None))))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/garbage", "HTTP-protocol-error"),
        ("/nothing", "HTTP-response-incomplete"),
        ("/reset", "connection-terminated"),
    ],
)
def test_malformed_upstream_response_reports_error_code(host: Host, path: str, code: str) -> None:
    guest = Guest()
    response = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, path), None)
    )
    answer, _ = call(host, guest)
    assert answer[response] == ("ok", ("err", code))


@pytest.mark.parametrize("nanoseconds", [0, 50 * MILLISECOND])
def test_first_byte_timeout_reports_read_timeout(host: Host, nanoseconds: int) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-first-byte-timeout", options, nanoseconds)
    response = take_response(
        guest, guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/hang"), options)
    )
    answer, _ = call(host, guest)
    assert answer[response] == ("ok", ("err", "connection-read-timeout"))


def test_stalled_upload_reports_write_timeout(host: Host) -> None:
    guest = Guest()
    request = new_request(guest, SERVER, "/deaf", method="post")
    body = guest.call("outgoing-request.body", request)
    stream = guest.call("outgoing-body.write", body)
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-between-bytes-timeout", options, 50 * MILLISECOND)
    future = guest.call("outgoing-handler/handle", request, options)
    guest.code("(loop $more")  # until the body is discarded, far more than sockets buffer
    guest.call("output-stream.blocking-write-zeroes-and-flush", stream, 4096, report=False)
    guest.code("(local.set $i (i32.add (local.get $i) (i32.const 1)))")
    guest.code("(br_if $more (i32.lt_u (local.get $i) (i32.const 16384))))")
    guest.finish(body, stream)
    response = take_response(guest, future)
    answer, _ = call(host, guest)
    assert answer[response] == ("ok", ("err", "connection-write-timeout"))


def reading_half(path: str, **timeouts: int) -> tuple[Guest, list[Step]]:
    guest = Guest()
    options = guest.call("request-options.constructor")
    for name, value in timeouts.items():
        guest.call(f"request-options.set-{name.replace('_', '-')}-timeout", options, value)
    future = guest.call("outgoing-handler/handle", new_request(guest, SERVER, path), options)
    body = guest.call("incoming-response.consume", take_response(guest, future))
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
        ("/half", {"between_bytes": 1000 * MILLISECOND}, "connection-read-timeout"),
        (
            "/half",
            {"first_byte": 60_000 * MILLISECOND, "between_bytes": 1000 * MILLISECOND},
            "connection-read-timeout",
        ),
        ("/half?cut", {}, "HTTP-response-incomplete"),
    ],
)
def test_truncated_response_fails_once(host: Host, path: str, timeouts: dict[str, int], code: str) -> None:
    guest, (first, failed, closed, reported, trailers) = reading_half(path, **timeouts)
    answer, _ = call(host, guest)
    assert answer[first] == ("ok", b"half")
    assert answer[failed] == ("err", ("last-operation-failed", HANDLE)) and answer[closed] == (
        "err",
        "closed",
    )
    assert answer[reported] == code and answer[trailers] == ("ok", ("err", code))


def test_first_byte_timeout_does_not_apply_to_body(host: Host) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-first-byte-timeout", options, 1500 * MILLISECOND)
    future = guest.call("outgoing-handler/handle", new_request(guest, SERVER, "/half"), options)
    stream = guest.call(
        "incoming-body.stream", guest.call("incoming-response.consume", take_response(guest, future))
    )
    guest.call("input-stream.blocking-read", stream, MOST)
    pollable = guest.call("input-stream.subscribe", stream)
    positions = guest.call("poll", [pollable, guest.call("subscribe-duration", 1800 * MILLISECOND)])
    answer, _ = call(host, guest)
    assert answer[positions] == [1]


@pytest.mark.parametrize("nanoseconds", [0, 50 * MILLISECOND])
def test_connect_timeout_reports_connection_timeout(host: Host, nanoseconds: int) -> None:
    guest = Guest()
    options = guest.call("request-options.constructor")
    guest.call("request-options.set-connect-timeout", options, nanoseconds)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        authority = f"127.0.0.1:{full.getsockname()[1]}"
        future = guest.call("outgoing-handler/handle", new_request(guest, authority, "/"), options)
        response = take_response(guest, future)
        answer = host.run(guest, egress=(f"http://{authority}",))
    assert answer[response] == ("ok", ("err", "connection-timeout"))
