"""Records of other nodes of a fleet in the timeline of this one."""

import json
import threading
import zlib
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.measurement import Measurement, MeasurementBatch
from engine.timeline import sql
from engine.timeline.bus import TimelineBus
from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, TimelineReader, select
from engine.timeline.record import Document, LineRecord, Origin, Record, encode
from engine.timeline.recorder import (
    MESSAGE_RECORDS,
    UNKNOWN,
    Appended,
    CopiedBatch,
    Retention,
    Rows,
    TimelineRecorder,
    TimelineStore,
    decode_batch,
    encode_batch,
    messages,
    read_page,
)
from svc_tui.logs import open_timeline, read_activity
from tests.engine.timeline.records import BEGAN, REQUEST, SECOND

ALL = RecordFilter()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path / "project ü")


def line(text: str, time_ns: int = BEGAN) -> LineRecord:
    return LineRecord(time_ns, "", "web", "stdout", text)


def row(cursor: int, record: Record, written_ns: int = BEGAN) -> tuple[Any, ...]:
    return (cursor, *encode(record), written_ns // 1_000_000)


def batch(node: str, after: int, *rows: tuple[int, Record] | tuple[int, Record, int]) -> CopiedBatch:
    content = encode_batch(after, [row(*each) for each in rows], ())
    return CopiedBatch(node, content, lambda position: None)


def append(path: Path, *records: Record | CopiedBatch, now_ns: int = BEGAN, node: str = "n1") -> Appended:
    store = TimelineStore(path, node=node)
    try:
        return store.append(records, now_ns)
    finally:
        store.close()


def entries(path: Path, **options: Any) -> list[Document]:
    return [entry for page in select(path, replace(ALL, **options)) for entry in page.entries]


def texts(path: Path, **options: Any) -> list[tuple[str, str]]:
    return [
        (entry.get("node", ""), entry["body"] if entry["kind"] in ("stdout", "stderr") else "")
        for entry in entries(path, **options)
    ]


def test_batches_are_written_once_and_in_order(path: Path) -> None:
    append(path, line("own"))
    assert append(path, batch("n2", 0, (5, line("a")), (9, line("b"))))[2] == [9]
    assert append(path, batch("n2", 0, (5, line("a")), (9, line("b"))))[2] == [9]
    assert append(path, batch("n2", 5, (9, line("b")), (10, line("c"))))[2] == [10]
    assert append(path, batch("n3", 0, (9, line("other"))))[2] == [9]
    assert texts(path) == [("n1", "own"), ("n2", "a"), ("n2", "b"), ("n2", "c"), ("n3", "other")]


@pytest.mark.parametrize("after", [6, UNKNOWN])
def test_batch_that_begins_later_than_the_copy_ends_is_not_written(path: Path, after: int) -> None:
    append(path, batch("n2", 0, (5, line("a"))))
    assert append(path, batch("n2", after, (7, line("c"))))[2] == [None]
    assert texts(path) == [("n2", "a")]


def decoded(page: dict[str, Any]) -> Any:
    """Return the batch of a page."""
    return decode_batch(b64decode(page["content"]))


def test_page_has_the_records_of_this_node_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_page(path, "", 0)["end"]
    first = append(path, line("1"), line("2"))[0][0][0]
    append(path, batch("n2", 0, (5, line("theirs"))))
    append(path, line("3"))
    monkeypatch.setattr("engine.timeline.recorder.PAGE_RECORDS", 2)
    page = read_page(path, "", 0)
    after, rows, _ = decoded(page)
    assert (after, [each[6] for each in rows], page["end"], page["lost"]) == (0, ["1", "2"], False, False)
    assert [each[6] for each in decoded(read_page(path, "", first))[1]] == ["2", "3"]
    assert read_page(path, "", rows[-1][0] + 2)["end"]
    assert read_page(path, "", first - 1)["lost"]
    theirs = read_page(path, "n2", 0)
    assert [(each[0], each[6]) for each in decoded(theirs)[1]] == [(5, "theirs")]
    assert (theirs["copied"], theirs["lost"], read_page(path, "n2", 5)["end"]) == (["n2"], False, True)
    assert read_page(path, "n2", 4)["lost"]


def test_batch_of_another_version_is_ignored(path: Path) -> None:
    content = encode_batch(0, [(*row(5, line("a")), "new column")], [("too", "few")])
    for each in (content, b"other", zlib.compress(b"other")):
        assert append(path, CopiedBatch("n2", each, lambda position: None))[2] == [0]


def test_messages_have_a_bounded_number_of_records() -> None:
    rows = [row(cursor, line("")) for cursor in range(1, 2 * MESSAGE_RECORDS + 2)]
    batches = [decode_batch(content) for content in messages(0, rows, ())]
    assert [after for after, _, _ in batches] == [0, MESSAGE_RECORDS, 2 * MESSAGE_RECORDS]
    assert [each[0] for _, part, _ in batches for each in part] == [each[0] for each in rows]
    long = [row(cursor, line("x" * 60_000)) for cursor in range(1, 13)]
    sizes = [len(decode_batch(content)[1]) for content in messages(0, long, ())]
    assert sizes == [5, 5, 2]
    assert list(messages(0, (), ())) == []
    assert [decode_batch(content) for content in messages(7, (), [("s",) * 11])] == [(7, [], [["s"] * 11])]


def test_times_of_a_copy_are_those_at_its_node(path: Path) -> None:
    append(path, line("early"), now_ns=BEGAN)
    append(path, line("late"), now_ns=BEGAN + 100 * SECOND)
    copies = [(5, line("copy of early", 0), BEGAN), (6, line("copy of late", 0), BEGAN + 100 * SECOND)]
    append(path, batch("n2", 0, *copies), now_ns=BEGAN + 100 * SECOND)
    assert decoded(read_page(path, "n2", 0))[1][0] == list(row(*copies[0]))
    middle = BEGAN + 50 * SECOND
    assert texts(path, since_ns=middle) == [("n1", "late"), ("n2", "copy of late")]
    assert texts(path, until_ns=middle) == [("n1", "early"), ("n2", "copy of early")]


@pytest.mark.parametrize("flooding", ["n2", ""])
def test_flood_of_one_node_removes_its_own_records_only(path: Path, flooding: str) -> None:
    store = TimelineStore(path, Retention(max_bytes=1 << 20))
    store.append([line("own")], BEGAN)
    store.append([batch("n2", 0, (5, line("second"))), batch("n3", 0, (5, line("third")))], BEGAN)
    after = 5
    for _ in range(40):
        flood = [line("x" * 1000)] * 100
        if flooding:
            numbered = list(enumerate(flood, after + 1))
            store.append([batch("n2", after, *numbered)], BEGAN)
            after = numbered[-1][0]
        else:
            store.append(flood, BEGAN)
        store.trim(BEGAN)
    store.close()
    rest = [(node, text) for node, text in texts(path) if text != "x" * 1000]
    expected = {"n2": [("", "own"), ("n3", "third")], "": [("n2", "second"), ("n3", "third")]}[flooding]
    assert [each for each in rest if each in expected] == expected
    assert len(entries(path)) < 2000
    reader = TimelineReader(path)
    last = reader.bounds()[1]
    assert reader.cursor_before(BEGAN + SECOND) == last
    reader.close()


def test_sql_has_the_column_node(path: Path) -> None:
    append(path, replace(REQUEST, target="/own"), batch("n2", 0, (5, replace(REQUEST, target="/copy"))))
    found = json.loads(sql.run(path, "select target, node from requests order by cursor"))
    assert found["rows"] == [{"target": "/own", "node": "n1"}, {"target": "/copy", "node": "n2"}]
    assert json.loads(sql.run(path, "select count(distinct node) as n from spans"))["rows"] == [{"n": 2}]


def test_activity_counts_the_requests_of_all_nodes(path: Path) -> None:
    copies = [(5, replace(REQUEST, request_id="b")), (6, replace(REQUEST, request_id="c"))]
    append(path, replace(REQUEST, request_id="a"), batch("n2", 0, *copies))
    root = path.parent.parent
    with open_timeline(root, None) as run:
        found = read_activity(run, 60, REQUEST.time_ns + SECOND)
    assert [row["requests"] for row in found.routes] == [3]


class Recorded:
    """Collects the output of a recorder."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.series: list[Any] = []
        self.begins: list[int] = []

    def publish(self, after: int, rows: Rows, series: Rows) -> None:
        self.begins.append(after)
        self.rows += rows
        self.series += series


def test_recorder_publishes_what_it_wrote_and_reports_copies(path: Path) -> None:
    timeline, published = TimelineBus(), Recorded()
    recorder = TimelineRecorder(
        path, timeline, lambda error: None, interval=0.01, publish=published.publish, node="n1"
    )
    reported: list[int | None] = []
    written = threading.Event()

    def on_written(position: int | None) -> None:
        reported.append(position)
        written.set()

    timeline.append(line("1"))
    recorder(CopiedBatch("n2", encode_batch(0, [row(5, line("copy"))], ()), on_written))
    assert written.wait(60)
    timeline.append(line("2"))
    timeline.measurements.append(MeasurementBatch(BEGAN, "web", (Measurement("jobs", "gauge", 1.0),)))
    recorder.close()
    assert reported == [5]
    assert [each[6] for each in published.rows] == ["1", "2"]
    assert published.begins[0] == UNKNOWN
    assert published.begins[-1] in (published.rows[0][0], published.rows[1][0])
    assert [each[1] for each in published.series] == ["jobs"]
    assert [entry.get("node") for entry in entries(path)] == ["n1", "n2", "n1"]


def test_recorder_drops_copies_beyond_its_memory(path: Path) -> None:
    recorder = TimelineRecorder(path, TimelineBus(), lambda error: None, max_pending_bytes=100)
    reported: list[int | None] = []
    recorder(CopiedBatch("n2", b"x" * 1000, reported.append))
    recorder.close()
    assert reported == [None]
    assert not path.exists()


def old_file(path: Path) -> None:
    """Write a file as svc did before it had fleets' records."""
    append(path, line("old"), node="")
    database = apsw.Connection(str(path))
    database.execute("""
        drop index record_node; drop table peer;
        alter table record drop column region;
        alter table record drop column node; alter table record drop column node_cursor;
        alter table record drop column node_ms;
        alter table origin drop column node;
        drop table metric;
        create table metric (
          resource text not null, name text not null, kind text not null, attributes text not null,
          unit text not null, description text not null, since_ns integer not null, time_ns integer not null,
          value real not null, bounds text, counts text, primary key (resource, name, kind, attributes)
        ) strict, without rowid;
        insert into metric values ('web', 'jobs', 'counter', '{}', '', '', 1, 2, 3.0, null, null);
        pragma user_version = 1;
    """)
    database.close()


def test_region_of_each_node_is_stored_and_old_records_have_none(path: Path) -> None:
    old_file(path)
    store = TimelineStore(path, origin=Origin(region="eu-1"))
    content = encode_batch(0, [(5, *encode(line("copy"), Origin("us-1")), 1)], ())
    store.append([line("new"), CopiedBatch("n2", content, lambda position: None)], BEGAN)
    store.close()
    assert [entry.get("region") for entry in entries(path)] == [None, "eu-1", "us-1"]
    rows = json.loads(sql.run(path, "select text, region from lines"))["rows"]
    assert [row["region"] for row in rows] == ["", "eu-1", "us-1"]


def test_file_without_the_region_is_read_and_gets_the_column(path: Path) -> None:
    append(path, line("old"))
    database = apsw.Connection(str(path))
    database.execute("alter table record drop column region; pragma user_version = 2")
    database.close()
    assert texts(path) == [("n1", "old")]
    assert json.loads(sql.run(path, "select region from lines"))["rows"] == [{"region": ""}]
    append(path, line("new"))
    assert texts(path) == [("n1", "old"), ("n1", "new")]
    assert json.loads(sql.run(path, "select region from lines"))["rows"] == [{"region": ""}] * 2


def test_file_of_an_older_svc_is_read_and_gets_the_columns(path: Path) -> None:
    old_file(path)
    assert texts(path) == [("", "old")]
    select = "select text from lines"
    assert json.loads(sql.run(path, select))["rows"] == [{"text": "old"}]
    jobs = "select name, value from metrics"
    assert json.loads(sql.run(path, jobs))["rows"] == [{"name": "jobs", "value": 3.0}]
    assert decoded(read_page(path, "", 0))[1][0][6] == "old"
    reader = TimelineReader(path)
    append(path, batch("n2", 0, (5, line("copy"))))
    assert [entry["cursor"] for entry in reader.tail(9, ALL)] == [entry["cursor"] for entry in entries(path)]
    reader.close()
    assert texts(path) == [("n1", "old"), ("n2", "copy")]
    assert json.loads(sql.run(path, jobs))["rows"] == [{"name": "jobs", "value": 3.0}]
