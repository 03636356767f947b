"""Series of guests' metrics in the timeline's file, and the view `metrics`."""

import json
import time
from contextlib import suppress
from pathlib import Path

import apsw

from engine.errors import SvcError
from engine.measurement import MAX_SERIES, Measurement, MeasurementBatch
from engine.timeline.bus import TimelineBus
from engine.timeline.recorder import Retention, TimelineRecorder, TimelineStore
from engine.timeline.sql import run
from tests.engine.timeline.records import REQUEST
from tests.support.waiting import until


def batch(*measurements: Measurement, time_ns: int = 0) -> MeasurementBatch:
    return MeasurementBatch(time_ns or time.time_ns(), "api", measurements)


def rows(path: Path, sql: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run(path, sql))["rows"]
    return found


def test_series_are_rows_of_the_view_metrics(tmp_path: Path) -> None:
    path, bus = tmp_path / "timeline.db", TimelineBus()
    recorder = TimelineRecorder(path, bus, lambda error: None)
    for value in (2, 3):
        bus.measurements.append(
            batch(
                Measurement("orders", "counter", value, unit="1", attributes=(("lane", "js \udc80"),)),
                Measurement("sizes", "histogram", 7, bounds=(5.0,), counts=(1, 1)),
            )
        )
    bus.append(REQUEST)
    recorder.close()
    orders, sizes = rows(path, "select * from metrics order by name")
    assert (orders["kind"], orders["value"], orders["unit"], orders["count"]) == ("counter", 5, "1", None)
    assert (orders["resource"], orders["attributes"]) == ("api", '{"lane":"js ?"}')
    assert (sizes["value"], sizes["count"], sizes["counts"], sizes["bounds"]) == (14, 4, "[2,2]", "[5.0]")
    sql = "select attributes ->> 'lane' as lane, sum(value) as n from metrics group by 1 order by 1 desc"
    assert rows(path, sql)[0] == {"lane": "js ?", "n": 5}


def test_file_without_records_has_metrics(tmp_path: Path) -> None:
    path, bus = tmp_path / "timeline.db", TimelineBus()
    recorder = TimelineRecorder(path, bus, lambda error: None)
    bus.measurements.append(batch(Measurement("n", "gauge", 1)))
    recorder.close()
    assert rows(path, "select value from metrics") == [{"value": 1}]


def test_file_of_an_older_version_has_no_metrics(tmp_path: Path) -> None:
    path = tmp_path / "timeline.db"
    store = TimelineStore(path)
    store.append([REQUEST], time.time_ns())
    store.close()
    database = apsw.Connection(str(path))
    database.execute("drop table metric")
    database.close()
    assert rows(path, "select name, value, since from metrics") == []
    assert rows(path, "select count(*) as n from requests") == [{"n": 1}]


def test_series_above_the_limit_are_dropped_with_one_warning(tmp_path: Path) -> None:
    path, bus = tmp_path / "timeline.db", TimelineBus()
    recorder = TimelineRecorder(path, bus, lambda error: None, interval=0.01)
    for _ in range(2):
        many = [
            Measurement("n", "counter", 1, attributes=(("id", str(id_)),)) for id_ in range(MAX_SERIES + 5)
        ]
        bus.measurements.append(batch(*many))

    def warned() -> bool:
        with suppress(SvcError):  # The file has no tables yet.
            return bool(rows(path, "select * from records"))
        return False

    until(warned)
    recorder.close()
    (warning,) = rows(path, "select level, body from records")
    assert warning["level"] == "WARN" and "maximum of 1,000 series" in str(warning["body"])
    assert rows(path, "select count(*) as n from metrics") == [{"n": MAX_SERIES}]


def test_series_of_earlier_runs_are_removed_above_limit_and_age(tmp_path: Path) -> None:
    path = tmp_path / "timeline.db"
    now = time.time_ns()
    for age, count, name in ((9 * 86_400, 3, "old"), (3600, MAX_SERIES, "earlier"), (0, 10, "new")):
        bus = TimelineBus()
        recorder = TimelineRecorder(path, bus, lambda error: None, retention=Retention())
        for number in range(count):
            one = Measurement(f"{name}.{number}", "counter", 1)
            bus.measurements.append(batch(one, time_ns=now - age * 10**9 + number))
        bus.append(REQUEST)
        recorder.close()
    counted = rows(path, "select substr(name, 1, 3) as name, count(*) as n from metrics group by 1")
    assert counted == [{"name": "ear", "n": MAX_SERIES - 10}, {"name": "new", "n": 10}]
