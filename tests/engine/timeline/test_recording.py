"""Recordings in the timeline's file: content, redaction and limits."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.timeline.bus import TimelineBus
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.query import TimelineReader
from engine.timeline.record import Record
from engine.timeline.recorder import Retention, TimelineRecorder, TimelineStore
from engine.timeline.recording import (
    MAX_BODY_BYTES,
    REDACTED_VALUE,
    Recording,
    original,
    restored,
    to_exchange,
)
from engine.trace import Capture
from tests.engine.timeline.records import BEGAN, SECOND, line

NONE: frozenset[str] = frozenset()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / TIMELINE_FILE


def recording(request_id: str = "01a", body: bytes = b"question", **fields: Any) -> Recording:
    record = Recording(
        project="shop",
        request_id=request_id,
        time_ns=BEGAN,
        method="POST",
        scheme="http",
        authority="localhost:3000",
        target="/a?b=c",
        headers=[(b"X-Kind", b"caf\xe9")],
        **fields,
    )
    record.body.add(body, ended=True)
    record.status, record.response_headers = 201, [(b"x-a", b"b")]
    record.response.add(b"ans", ended=False)
    record.response.add(b"wer", ended=True)
    return record


def write(path: Path, *records: Record | Recording, retention: Retention | None = None) -> None:
    store = TimelineStore(path, retention or Retention(max_age_seconds=1e12))
    store.append(records, BEGAN)
    store.trim(BEGAN)
    store.close()


def stored(path: Path, *ids: str) -> list[str]:
    """Return which of these requests have a recording."""
    reader = TimelineReader(path)
    result = [each for each in ids if reader.exchange(each) is not None]
    reader.close()
    return result


def test_recording_round_trips(path: Path) -> None:
    record = recording()
    write(path, line(1), record)
    reader = TimelineReader(path)
    exchange = reader.exchange("01a")
    reader.close()
    assert exchange == to_exchange(record) and exchange is not None
    assert exchange.request.headers == (("x-kind", "café"),) and exchange.request.body == b"question"
    assert (exchange.status, exchange.response.body, exchange.response.complete) == (201, b"answer", True)
    assert exchange.request.complete and exchange.target == "/a?b=c"


def test_body_is_cut_at_limit_for_any_chunks(path: Path) -> None:
    record = recording(body=b"")
    for size in (MAX_BODY_BYTES - 3, 7, 1000):
        record.body.add(b"x" * size, ended=False)
    result = to_exchange(record).request
    assert (result.body, result.size, result.complete) == (
        b"x" * MAX_BODY_BYTES,
        MAX_BODY_BYTES + 1004,
        False,
    )


def test_body_of_exact_limit_is_complete() -> None:
    result = to_exchange(recording(body=b"x" * MAX_BODY_BYTES)).request
    assert len(result.body) == MAX_BODY_BYTES and result.complete


def test_body_without_end_is_incomplete() -> None:
    record = recording()
    record.body.add(b"more", ended=False)
    assert not to_exchange(record).request.complete


HEADERS = (
    "api-key authorization cf-access-jwt-assertion cookie cookie2 proxy-authorization set-cookie"
    " x-access-token x-amz-security-token x-api-key x-auth-token x-csrf-token"
    " x-forwarded-access-token x-functions-key x-goog-iap-jwt-assertion x-session x-xsrf-token"
)


@pytest.mark.parametrize("name", HEADERS.split())
def test_secrets_in_headers_never_reach_the_file(path: Path, name: str) -> None:
    record = recording(redact=frozenset({"x-pin"}))
    record.headers = [(name.title().encode(), b"opensesame"), (b"X-PIN", b"opensesame"), (b"x-b", b"c")]
    record.response_headers = [(name.encode(), b"opensesame")]
    write(path, line(1), record)
    files = [*path.parent.iterdir()]
    assert files and not any(b"opensesame" in file.read_bytes() for file in files)
    reader = TimelineReader(path)
    exchange = reader.exchange("01a")
    reader.close()
    assert exchange is not None
    assert exchange.request.headers == ((name, REDACTED_VALUE), ("x-pin", REDACTED_VALUE), ("x-b", "c"))
    assert exchange.response.headers == ((name, REDACTED_VALUE),)


CREDENTIALS = [
    ("application/json", b'{"a": [{"accessToken": "S1", "n": 1}], "pin": {"x": 4711}, "password": true}'),
    ("application/json", b'{"password": "S1 \\" S2", "pin": 4711, "note": "' + b"x" * MAX_BODY_BYTES),
    ("application/x-ndjson", b'{"n": 1, "token": "S1"}\n{"n": 1, "token": "S2"}\n'),
    ("application/x-www-form-urlencoded", b"n=1&password=S1+%26 S2&session_id=S2&empty="),
    (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n1\r\n--b\r\n'
        b'Content-Disposition: form-data; name="password"\r\nX-Y: z\r\n\r\nS1\r\nS2\r\n--b\r\n'
        b'Content-Disposition: form-data; name="f"; filename="\xff"\r\n\r\n\xff\x00\r\n--b--\r\n',
    ),
]


@pytest.mark.parametrize(("kind", "body"), CREDENTIALS)
def test_credentials_in_bodies_and_queries_never_reach_the_file_and_are_restored(
    path: Path, kind: str, body: bytes
) -> None:
    body = body.replace(b"S1", b"opensesame").replace(b"S2", b"hunter22")
    record = recording(body=body)
    record.target = "/a;sid=opensesame?token=opensesame&b=c&API_KEY=open%20sesame&flag&auth="
    record.headers = [
        (b"content-type", kind.encode()),
        (b"referer", b"http://x/y?b=c&code_token=hunter22"),
        (b"content-length", str(len(body)).encode()),
    ]
    record.response_headers = record.headers
    record.response = record.body
    url = "https://api.example.com/?access_token=opensesame&n=1"
    capture = Capture(body, body, 1, request=("POST", url, record.headers), response=(200, record.headers))
    record.captures = [("s", capture)]
    write(path, line(1), record)
    secrets = (b"opensesame", b"hunter22", b"open%20sesame", b"4711")
    encoded = [base64.b64encode(secret)[:9] for secret in secrets[:2]]
    for file in path.parent.iterdir():
        assert not any(secret in file.read_bytes() for secret in (*secrets, *encoded))
    stored = to_exchange(record)
    assert stored.target == ("/a;sid=[redacted]?token=[redacted]&b=c&API_KEY=[redacted]&flag&auth=")
    assert dict(stored.request.headers)["referer"] == "http://x/y?b=c&code_token=[redacted]"
    assert stored.request.complete == original(record).request.complete and b"n" in stored.request.body
    assert base64.b64decode(stored.calls[0].sent) == base64.b64decode(stored.calls[0].received)
    assert b"[redacted]" in base64.b64decode(stored.calls[0].sent)
    assert restored(stored, None, NONE)[1]
    if stored.request.complete:
        again, unknown = restored(stored, original(record), NONE)
        assert (again.target, again.request) == (record.target, original(record).request)
        assert unknown == []


def test_edited_request_gets_the_credentials_that_it_still_has() -> None:
    record = recording(body=b'{"token": "abc", "old": {"password": "x y"}}')
    record.target = "/a?token=1&sid=2&token=3%20"
    record.headers = [(b"content-type", b"application/json"), (b"cookie", b"a=b")]
    stored = to_exchange(record)
    body = b'{"password": "[redacted]", "token": "new"}'
    edited = replace(
        stored,
        target="/b?token=[redacted]&token=[redacted]&token=[redacted]&sid=9",
        request=replace(stored.request, body=body, size=len(body)),
    )
    again, unknown = restored(edited, original(record), NONE)
    assert again.target == "/b?token=1&token=3+&token=[redacted]&sid=9"
    assert again.request.body == b'{"password": "x y", "token": "new"}'
    assert again.request.headers == (("content-type", "application/json"), ("cookie", "a=b"))
    assert again.request.complete and unknown == ["token"]


def test_file_is_readable_by_owner_only(path: Path) -> None:
    store = TimelineStore(path)
    store.append([line(1), recording()], BEGAN)
    assert [file.name for file in path.parent.glob(f"{TIMELINE_FILE}*") if file.stat().st_mode & 0o077] == []
    store.close()


def test_recordings_are_removed_with_their_records(path: Path) -> None:
    write(path, line(1), recording("01a"))
    write(path, *map(line, range(20_000)))
    write(path, line(2), recording("01b"), retention=Retention(max_bytes=1 << 20, max_age_seconds=1e12))
    assert stored(path, "01a", "01b") == ["01b"]


def test_oldest_recordings_are_removed_above_limit(path: Path) -> None:
    ids = [f"01{n:02}" for n in range(40)]
    for each in ids:
        write(path, line(1), recording(each, b"x" * MAX_BODY_BYTES))
    assert stored(path, *ids) == ids
    write(
        path,
        line(1),
        recording("02"),
        retention=Retention(max_age_seconds=1e12, max_recording_bytes=10 * MAX_BODY_BYTES),
    )
    remaining = stored(path, *ids, "02")
    assert remaining == [*ids[-len(remaining) + 1 :], "02"] and 7 <= len(remaining) <= 10


def test_older_file_without_recordings_accepts_them(path: Path) -> None:
    write(path, line(1))
    database = apsw.Connection(str(path))
    database.execute("drop table exchange")
    database.close()
    assert stored(path, "01a") == []
    write(path, recording("01a"))
    assert stored(path, "01a") == ["01a"]


def test_recorder_writes_published_recordings(path: Path) -> None:
    timeline, warnings = TimelineBus(), list[Exception]()
    recorder = TimelineRecorder(path, timeline, warnings.append, now_ns=lambda: BEGAN + SECOND)
    timeline.append(line(1))
    timeline.recordings.append(recording("01a"))
    timeline.recordings.append(recording("01b"))
    recorder.close()
    timeline.recordings.append(recording("01c"))
    assert stored(path, "01a", "01b", "01c") == ["01a", "01b"] and warnings == []


def test_failing_listener_is_removed() -> None:
    timeline, calls = TimelineBus(), list[Recording]()

    def fail(recording: Recording) -> None:
        calls.append(recording)
        raise ValueError

    timeline.recordings.subscribe(fail)
    timeline.recordings.append(recording())
    timeline.recordings.append(recording())
    assert len(calls) == 1
