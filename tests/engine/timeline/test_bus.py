import logging

import pytest

from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord, Record
from engine.timeline.recording import Recording

RECORD = PlatformRecord(1, "api", "INFO", "built")
RECORDING = Recording(
    project="shop",
    request_id="r1",
    time_ns=1,
    method="GET",
    scheme="http",
    authority="localhost",
    target="/",
    headers=[],
)


def fail(_value: object) -> None:
    raise ValueError("broken follower")


def test_append_follower_raises_logs_once_and_removes_it(caplog: pytest.LogCaptureFixture) -> None:
    bus, received = TimelineBus(), list[Record]()
    bus.subscribe(fail)
    bus.subscribe(received.append)
    with caplog.at_level(logging.ERROR, "svc.timeline"):
        bus.append(RECORD)
        bus.append(RECORD)
    assert received == [RECORD, RECORD]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "broken follower" in caplog.text


def test_publish_recording_listener_raises_logs_once_and_removes_it(caplog: pytest.LogCaptureFixture) -> None:
    bus, received = TimelineBus(), list[Recording]()
    bus.recordings.subscribe(fail)
    bus.recordings.subscribe(received.append)
    with caplog.at_level(logging.ERROR, "svc.timeline"):
        bus.recordings.append(RECORDING)
        bus.recordings.append(RECORDING)
    assert len(received) == 2
    assert len(caplog.records) == 1


def test_unsubscribe_stops_delivery() -> None:
    bus, received = TimelineBus(), list[Record]()
    unsubscribe = bus.subscribe(received.append)
    bus.append(RECORD)
    unsubscribe()
    bus.append(RECORD)
    assert received == [RECORD]
