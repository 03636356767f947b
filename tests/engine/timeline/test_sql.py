"""SQL over the timeline."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.errors import SvcError
from engine.grant import Grant
from engine.timeline import sql
from engine.timeline.database import timeline_path
from engine.timeline.recorder import TimelineStore
from engine.timeline.sql import _Percentile
from engine.trace import Call
from tests.engine.timeline.records import BEGAN, LINE, PLATFORM, REQUEST, SECOND, STRUCTURED


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 requests through a mount, of 1 to 100 ms, one every 10 s; and a record of each other kind."""
    path = timeline_path(tmp_path_factory.mktemp("project"))
    store = TimelineStore(path)
    for number in range(100):
        root = replace(
            REQUEST,
            request_id=f"r{number}",
            time_ns=BEGAN + 10 * number * SECOND,
            wall_ns=(number + 1) * 1_000_000,
            compute_ns=0,
            peak_memory=None,
        )
        inner = replace(root, resource="api", root=False, compute_ns=2_000_000, peak_memory=9)
        store.append([inner, root], root.time_ns)
    store.append([STRUCTURED, LINE, PLATFORM], BEGAN)
    store.close()
    return path


def rows(path: Path, statement: str, limit: int = sql.MAX_ROWS) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(sql.run(path, statement, limit))["rows"]
    return result


def test_views_have_requests_spans_records_and_lines(path: Path) -> None:
    statement = """select path, handler, count(*) as n, p50(wall_ms) as p50, p95(wall_ms) as p95,
        p99(wall_ms) as p99, max(compute_ms) as compute, max(peak_memory) as memory
        from requests group by path, handler"""
    assert rows(path, statement) == [
        {
            "path": "/a",
            "handler": "api",
            "n": 100,
            "p50": 50.5,
            "p95": 95.05,
            "p99": 99.01,
            "compute": 2.0,
            "memory": 9,
        }
    ]
    assert rows(path, "select resource, count(*) from spans group by 1 order by 1") == [
        {"resource": "api", "count(*)": 100},
        {"resource": "web", "count(*)": 100},
    ]
    assert rows(path, "select level, body, attributes ->> 'left' as l from records order by cursor") == [
        {"level": "WARN", "body": "low", "l": "3"},
        {"level": "INFO", "body": "ready", "l": None},
    ]
    assert rows(path, "select stream, text from lines") == [{"stream": "stdout", "text": "hello"}]


def test_spans_have_calls(tmp_path: Path) -> None:
    store = TimelineStore(timeline_path(tmp_path))
    batch = Call(
        "sql", "batch of 1", 1_000_000, wall_ns=2_000_000, status=200, details={"transaction": "write"}
    )
    statement = Call("sql", "select 1", 1_500_000, wall_ns=1_000_000, details={"rows": 3}, parent=0)
    store.append([replace(REQUEST, span_id="00f067aa0ba902b7", calls=(batch, statement))], BEGAN)
    store.close()
    select = (
        "select kind, name, parent, span_id, time_ns, wall_ms, status, attributes ->> 'rows' as n from spans"
    )
    request, first, second = rows(timeline_path(tmp_path), select)
    assert (request["kind"], request["span_id"]) == ("request", "00f067aa0ba902b7")
    assert (first["name"], first["parent"], first["wall_ms"]) == ("batch of 1", request["span_id"], 2.0)
    assert (second["parent"], second["n"], second["status"]) == (first["span_id"], 3, None)
    assert second["time_ns"] == BEGAN + 1_500_000


def test_spans_of_code_have_their_own_ids(tmp_path: Path) -> None:
    store = TimelineStore(timeline_path(tmp_path))
    fetch = Call("fetch", "GET https://a.test", 1, wall_ns=1, details={"bytes_in": 5}, parent=1)
    span = Call("span", "load", 1, wall_ns=3, details={"bytes_in": "many"}, span_id="a" * 16)
    store.append([replace(REQUEST, span_id="00f067aa0ba902b7", calls=(fetch, span))], BEGAN)
    store.close()
    select = "select kind, span_id, parent, bytes_in from spans where kind <> 'request' order by kind"
    fetched, loaded = rows(timeline_path(tmp_path), select)
    assert (fetched["parent"], fetched["bytes_in"]) == ("a" * 16, 5)
    assert (loaded["span_id"], loaded["parent"], loaded["bytes_in"]) == ("a" * 16, "00f067aa0ba902b7", None)


def test_buckets_group_by_time(path: Path) -> None:
    counts = rows(path, "select bucket(time_ns, '5m') as at, count(*) as n from requests group by 1")
    assert sum(row["n"] for row in counts) == 100
    assert [row["n"] for row in counts[1:-1]] == [30] * (len(counts) - 2)
    assert all(row["at"].endswith((":00:00Z", ":05:00Z", "0:00Z", "5:00Z")) for row in counts)


def test_ago_is_comparable_to_the_time_of_records(path: Path) -> None:
    before = time.time_ns()
    [row] = rows(path, "select ago('90s') as at, ago('1h') as earlier")
    assert before <= row["at"] + 90 * SECOND <= time.time_ns()
    assert before <= row["earlier"] + 3600 * SECOND <= time.time_ns()
    assert rows(path, "select count(*) as n from requests where time_ns < ago('1s')") == [{"n": 100}]


def test_common_table_expressions_and_equal_names_work(path: Path) -> None:
    assert rows(path, "with n(i) as (select 1) select i, i as i from n") == [{"i": 1, "i:2": 1}]


def test_result_is_bounded(path: Path) -> None:
    result = json.loads(sql.run(path, "select cursor from spans", 7))
    assert (len(result["rows"]), result["truncated"]) == (7, "rows")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("select * from exchange", "exchange cannot be read"),
        ("with requests as (select * from exchange) select * from requests", "exchange cannot be read"),
        ("select count(*) from exchange", "exchange cannot be read"),
        ("select name from sqlite_schema", "cannot be read"),
        ("select name from pragma_table_info('record')", "cannot be read"),
        ("select load_extension('a')", "load_extension() cannot be called here"),
        ("delete from record", "not a SELECT"),
        ("pragma query_only = off", "not a SELECT"),
        ("attach 'x.db' as x", "not a SELECT"),
        ("create temp table t (a)", "not a SELECT"),
        ("select 1; select 2", "several statements"),
        ("select nope from requests", "no such column: nope"),
        ("select bucket(time_ns, '5 minutes') from requests", "is not a duration"),
        ("select ago('yesterday')", "'yesterday' is not a duration"),
        ("select zeroblob(1000000000)", "too big"),
        (f"select {'1+' * 60_000}1", "more than"),
    ],
)
def test_refused_statement_names_the_reason(path: Path, statement: str, message: str) -> None:
    with pytest.raises(SvcError) as raised:
        sql.run(path, statement)
    assert message in raised.value.message
    assert raised.value.code == "invalid"


def test_unknown_function_names_the_views_and_functions(path: Path) -> None:
    with pytest.raises(SvcError) as raised:
        sql.run(path, "select * from requests where time > now()")
    assert raised.value.message == "SQL: no such function: now"
    assert raised.value.hint == (
        "Read requests, spans, records, lines, metrics."
        " Functions besides SQLite's: p50, p95, p99, bucket, ago."
    )


def test_long_statement_is_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "TIMEOUT_SECONDS", 0.05)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with pytest.raises(SvcError) as raised:
        sql.run(path, endless)
    assert raised.value.code == "timeout"
    condition = raised.value.hint.partition(": ")[2].removesuffix(".")
    monkeypatch.undo()
    assert rows(path, f"select count(*) as n from spans {condition}") == [{"n": 200}]


NUMBERS = "with recursive n(i) as (select 1 union all select i + 1 from n limit {})"


def test_percentiles_of_many_values_are_exact_and_leave_turns_to_others(path: Path) -> None:
    count = 300_000
    values = sorted(number * 7919 % count - 1000.5 for number in range(1, count + 1))
    columns = f"p50(i * 7919 % {count} - 1000.5) as p50, p99(-i * 1e300) as p99"
    statement = f"{NUMBERS.format(count)} select {columns} from n"
    sorting = _Percentile(0.5)
    for number in range(1, count + 1):
        sorting.step(number * 7919 % count - 1000.5)
    assert all(len(part) <= 10_000 for part in sorting._sorted)
    (row,) = rows(path, statement)
    assert row["p50"] == round((values[count // 2 - 1] + values[count // 2]) / 2, 6)
    assert row["p99"] == pytest.approx(-(1 + 0.01 * (count - 1)) * 1e300)
    assert rows(path, "select p50(a) as p from (select 1e999 as a union all select 2)") == [{"p": 2.0}]


@pytest.mark.parametrize(
    "function",
    ["json_group_array(printf('%.500000c', 'x'))", "json_group_object(i, printf('%.500000c', 'x'))"],
)
def test_values_collected_in_memory_above_limit_are_refused(path: Path, function: str) -> None:
    apsw.memory_high_water(True)
    with pytest.raises(SvcError, match="the statement collected more than 64 MiB"):
        rows(path, f"{NUMBERS.format(-1)} select {function} from n")
    assert apsw.memory_high_water() < 512 << 20
    assert rows(path, "select json_group_array(level) as levels from records") == [
        {"levels": '["WARN","INFO"]'}
    ]


@pytest.mark.parametrize("index", ["null", "1e400", "'x'", "x'00'"])
def test_span_of_an_invalid_call_is_null(path: Path, index: str) -> None:
    assert rows(path, f"select call_id('00f067aa0ba902b7', {index}) as id") == [{"id": None}]


def test_missing_timeline_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SvcError, match="no records yet"):
        sql.run(tmp_path / "none.db", "select 1")
    assert not (tmp_path / "none.db").exists()


def test_records_have_grants(tmp_path: Path) -> None:
    store = TimelineStore(timeline_path(tmp_path))
    grant = Grant("quota", "svc quota set shop --egress N")
    store.append([replace(PLATFORM, grant=grant)], time.time_ns())
    store.close()
    sql = "select attributes, grant ->> 'line' as line from records"
    assert rows(timeline_path(tmp_path), sql) == [{"attributes": None, "line": grant.line}]
