"""`response-outparam`, `outgoing-response` and `outgoing-body` of wasi:http/types."""

import pytest

from tests.conformance.canonical import HANDLE
from tests.conformance.guest import Guest, Step
from tests.conformance.host import Client, Host
from tests.conformance.wit import Record, Variant, interfaces, resolve


def response(guest: Guest, *fields: tuple[str, bytes]) -> Step:
    return guest.call("outgoing-response.constructor", guest.call("fields.from-list", list(fields)))


def error_codes() -> list[object]:
    """Every error-code, with its payload full and empty."""
    variant = resolve(interfaces()["wasi:http/types"].types["error-code"])
    assert isinstance(variant, Variant)
    result: list[object] = []
    for name, payload in variant.cases:
        if payload is None:
            result.append(name)
            continue
        record = resolve(payload.payload) if hasattr(payload, "payload") else resolve(payload)
        full: object = 7
        if isinstance(record, Record):
            full = tuple("text" if "string" in str(kind) else 7 for _, kind in record.fields)
        elif "string" in str(record):
            full = "text"
        result.append((name, full))
        empty = (None,) * len(record.fields) if isinstance(record, Record) else None
        result.append((name, empty))
    return result


def test_new_response_has_status_200_and_given_headers(host: Host) -> None:
    guest = Guest()
    handle = response(guest, ("x", b"1"), ("x", b"2"))
    status = guest.call("outgoing-response.status-code", handle)
    headers = guest.call("outgoing-response.headers", handle)
    entries = guest.call("fields.entries", headers)
    guest.drop(headers)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    answer = host.run(guest)
    assert answer[status] == 200 and answer[entries] == [("x", b"1"), ("x", b"2")]
    assert answer.headers == [(b"x", b"1"), (b"x", b"2"), (b"content-length", b"0")]
    assert (answer.status, answer.body, answer.ended, answer.report.outcome) == (200, b"", True, "ok")


@pytest.mark.parametrize("status", [200, 204, 304, 404, 418, 500, 599])
def test_status_is_sent_as_set(host: Host, status: int) -> None:
    guest = Guest()
    handle = response(guest)
    result = guest.call("outgoing-response.set-status-code", handle, status)
    now = guest.call("outgoing-response.status-code", handle)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    answer = host.run(guest)
    assert (answer[result], answer[now], answer.status) == (("ok", None), status, status)


@pytest.mark.parametrize("status", [0, 1, 99, 100, 101, 199, 600, 999, 65535])
def test_invalid_status_is_rejected(host: Host, status: int) -> None:
    guest = Guest()
    handle = response(guest)
    result = guest.call("outgoing-response.set-status-code", handle, status)
    now = guest.call("outgoing-response.status-code", handle)
    answer = host.run(guest)
    assert (answer[result], answer[now]) == (("err", None), 200)


def test_response_body_and_stream_can_be_taken_once(host: Host) -> None:
    guest = Guest()
    handle = response(guest)
    body = guest.call("outgoing-response.body", handle)
    stream = guest.call("outgoing-body.write", body)
    second = guest.call("outgoing-response.body", handle), guest.call("outgoing-body.write", body)
    guest.drop(stream)
    after = guest.call("outgoing-body.write", body)
    answer = host.run(guest)
    assert answer[body] == answer[stream] == ("ok", HANDLE)
    assert [answer[step] for step in (*second, after)] == [("err", None)] * 3


def test_body_can_be_written_before_response_is_set(host: Host) -> None:
    guest = Guest()
    handle = response(guest)
    body = guest.call("outgoing-response.body", handle)
    stream = guest.call("outgoing-body.write", body)
    guest.call("output-stream.blocking-write-and-flush", stream, b"early")
    finished = guest.finish(body, stream)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    answer = host.run(guest)
    assert answer[finished] == ("ok", None)
    assert answer.body == b"early" and (b"content-length", b"5") in answer.headers


def test_body_can_be_finished_without_stream(host: Host) -> None:
    guest = Guest()
    handle = response(guest)
    body = guest.call("outgoing-response.body", handle)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    finished = guest.call("outgoing-body.finish", body, None)
    answer = host.run(guest)
    assert answer[finished] == ("ok", None) and answer.ended and answer.report.outcome == "ok"


def test_body_outlives_response_resource(host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    guest.drop(guest.request)
    guest.call("output-stream.blocking-write-and-flush", stream, b"on and on")
    guest.finish(body, stream)
    assert host.run(guest).body == b"on and on"


@pytest.mark.parametrize(("announced", "written"), [(5, 3), (5, 0), (0, 0), (3, 3)])
def test_body_length_differs_from_content_length_breaks_response(
    host: Host, announced: int, written: int
) -> None:
    guest = Guest()
    body, stream = guest.body(200, ("content-length", str(announced).encode()))
    if written:
        guest.call("output-stream.blocking-write-and-flush", stream, bytes(written))
    finished = guest.finish(body, stream)
    answer = host.run(guest)
    if written == announced:
        assert answer[finished] == ("ok", None) and answer.ended and answer.report.outcome == "ok"
    else:
        assert answer[finished] == ("err", ("HTTP-response-body-size", written))
        assert not answer.ended and answer.report.outcome == "guest-failed"
        assert f"{written} bytes" in answer.detail


def test_several_content_lengths_break_the_response(host: Host) -> None:
    guest = Guest()
    guest.body(200, ("content-length", b"5"), ("content-length", b"6"))
    answer = host.run(guest)
    assert answer.status is None and answer.report.outcome == "guest-failed"
    assert (
        answer.detail
        == "the guest broke a rule of its host: its response has several values of content-length"
    )


def test_missing_body_with_content_length_breaks_response(host: Host) -> None:
    guest = Guest()
    guest.call("response-outparam.set", guest.outparam, ("ok", response(guest, ("content-length", b"5"))))
    answer = host.run(guest)
    assert not answer.ended and answer.report.outcome == "guest-failed"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 304)])
def test_content_length_of_head_and_304_is_not_enforced(host: Host, method: str, status: int) -> None:
    guest = Guest()
    handle = response(guest, ("content-length", b"5"))
    guest.call("outgoing-response.set-status-code", handle, status)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    answer = host.run(guest, Client(method))
    assert answer.report.outcome == "ok" and (b"content-length", b"5") in answer.headers


def test_dropped_unfinished_body_breaks_response(host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    guest.drop(stream, body)
    answer = host.run(guest)
    assert (answer.status, answer.body, answer.ended) == (200, b"half", False)
    assert answer.report.outcome == "guest-failed" and "unfinished" in answer.detail


@pytest.mark.parametrize("dropped", [False, True])
def test_handler_returns_with_open_body_fails_the_run(host: Host, dropped: bool) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, b"half")
    if dropped:
        guest.drop(stream)
    answer = host.run(guest)
    assert (answer.body, answer.ended, answer.report.outcome) == (b"half", False, "guest-failed")


@pytest.mark.parametrize("end", ["finish", "drop"])
def test_finish_body_before_stream_is_dropped_traps(host: Host, end: str) -> None:
    guest = Guest()
    body, _ = guest.body()
    if end == "finish":
        guest.call("outgoing-body.finish", body, None)
    else:
        guest.drop(body)
    after = guest.call("get-arguments")
    answer = host.run(guest)
    assert not answer.reached(after) and not answer.ended
    assert "outgoing-body" in answer.detail and "output-stream" in answer.detail


@pytest.mark.parametrize("end", ["give", "drop"])
def test_set_or_drop_response_before_headers_traps(host: Host, end: str) -> None:
    guest = Guest()
    handle = response(guest)
    guest.call("outgoing-response.headers", handle)
    if end == "give":
        guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    else:
        guest.drop(handle)
    after = guest.call("get-arguments")
    answer = host.run(guest)
    assert not answer.reached(after) and answer.status is None
    assert "outgoing-response" in answer.detail and "headers" in answer.detail


def test_unsent_response_can_be_dropped(host: Host) -> None:
    guest = Guest()
    handle = response(guest)
    body = guest.call("outgoing-response.body", handle)
    stream = guest.call("outgoing-body.write", body)
    guest.drop(stream, body, handle)
    guest.answer(b"another")
    answer = host.run(guest)
    assert answer.body == b"another" and answer.report.outcome == "ok"


def test_trailers_are_accepted_and_not_sent(host: Host) -> None:
    guest = Guest()
    body, stream = guest.body()
    guest.call("output-stream.blocking-write-and-flush", stream, b"body")
    guest.drop(stream)
    trailers = guest.call("fields.from-list", [("x-checksum", b"1")])
    finished = guest.call("outgoing-body.finish", body, trailers)
    answer = host.run(guest)
    assert answer[finished] == ("ok", None) and answer.body == b"body" and answer.ended
    assert answer.lines == [("WARN", "the guest set trailers; they are not sent")]


@pytest.mark.parametrize("code", error_codes(), ids=str)
def test_guest_can_respond_with_any_error_code(host: Host, code: object) -> None:
    guest = Guest()
    result = guest.call("response-outparam.set", guest.outparam, ("err", code))
    answer = host.run(guest)
    assert answer.reached(result) and answer.status is None and not answer.ended
    if code == "connection-terminated":
        assert (answer.report.outcome, answer.detail) == ("aborted", "the guest aborted the response")
    else:
        name, payload = code if isinstance(code, tuple) else (code, None)
        text = f": {payload}" if isinstance(payload, str) else ""
        assert answer.report.outcome == "guest-failed"
        assert answer.detail.endswith(f"the error {name}{text}")


@pytest.mark.parametrize("dropped", [False, True])
def test_missing_response_fails_the_run(host: Host, dropped: bool) -> None:
    guest = Guest()
    if dropped:
        guest.drop(guest.outparam)
    answer = host.run(guest)
    assert (answer.status, answer.report.outcome) == (None, "guest-failed")
    assert answer.detail == "the guest returned no response"


@pytest.mark.parametrize("first", ["ok", "err"])
def test_second_response_traps(host: Host, first: str) -> None:
    guest = Guest()
    first_response, other = response(guest), response(guest)
    result = ("ok", first_response) if first == "ok" else ("err", "configuration-error")
    guest.call("response-outparam.set", guest.outparam, result)
    second = guest.call("response-outparam.set", guest.outparam, ("ok", other))
    answer = host.run(guest)
    assert not answer.reached(second) and answer.report.outcome == "guest-failed"


def test_using_response_after_set_traps(host: Host) -> None:
    guest = Guest()
    handle = response(guest)
    guest.call("response-outparam.set", guest.outparam, ("ok", handle))
    step = guest.call("outgoing-response.set-status-code", handle, 404)
    answer = host.run(guest)
    assert not answer.reached(step) and "unknown handle" in answer.detail


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (103, ("internal-error", "informational responses are not supported")),
        (100, ("internal-error", "informational responses are not supported")),
        (99, "HTTP-protocol-error"),
        (200, "HTTP-protocol-error"),
    ],
)
def test_informational_responses_are_not_supported(host: Host, status: int, code: object) -> None:
    guest = Guest()
    fields = guest.call("fields.constructor")
    sent = guest.call("response-outparam.send-informational", guest.outparam, status, fields)
    guest.answer(b"final")
    answer = host.run(guest)
    assert answer[sent] == ("err", code)
    assert answer.body == b"final" and answer.report.outcome == "ok"


def test_guest_can_continue_after_response(host: Host) -> None:
    guest = Guest()
    guest.answer(b"done")
    guest.call("pollable.block", guest.call("subscribe-duration", 5_000_000))
    after = guest.call("monotonic-clock/now")
    answer = host.run(guest)
    assert answer.reached(after) and answer.body == b"done" and answer.report.outcome == "ok"


@pytest.mark.parametrize("flushed", [False, True])
def test_response_that_a_trap_follows_was_sent_if_it_was_flushed(host: Host, flushed: bool) -> None:
    guest = Guest()
    _, stream = guest.body()
    guest.call("output-stream.check-write", stream, report=False)
    guest.call("output-stream.write", stream, b"first", report=False)
    if flushed:
        guest.call("output-stream.flush", stream, report=False)
    guest.code("unreachable")
    answer = host.run(guest)
    assert (answer.status, answer.body) == ((200, b"first") if flushed else (None, b""))
    assert answer.report.outcome == "guest-failed" and not answer.ended
