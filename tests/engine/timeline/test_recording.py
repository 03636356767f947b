"""Recordings in the timeline's file: content, redaction and limits."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.timeline.bus import TimelineBus
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.query import TimelineReader
from engine.timeline.record import Record
from engine.timeline.recorder import TimelineRecorder
from engine.timeline.recording import MAX_BODY_BYTES, REDACTED_HEADERS, REDACTED_VALUE, Recording, to_exchange
from engine.timeline.store import Retention, TimelineStore
from tests.engine.timeline.records import BEGAN, SECOND, line


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


@pytest.mark.parametrize("name", sorted(REDACTED_HEADERS))
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
    timeline.publish_recording(recording("01a"))
    timeline.publish_recording(recording("01b"))
    recorder.close()
    timeline.publish_recording(recording("01c"))
    assert stored(path, "01a", "01b", "01c") == ["01a", "01b"] and warnings == []


def test_failing_listener_is_removed() -> None:
    timeline, calls = TimelineBus(), list[Recording]()

    def fail(recording: Recording) -> None:
        calls.append(recording)
        raise ValueError

    timeline.on_recording(fail)
    timeline.publish_recording(recording())
    timeline.publish_recording(recording())
    assert len(calls) == 1
