"""Limits of statements: time, memory, size of values and of results."""

import asyncio
import json
import sys
import time
from collections.abc import Callable

import apsw
import pytest

from doors.tables.guest import reader, writer
from doors.tables.guest.session import MAX_RESULT, MAX_ROWS
from doors.tables.sqlite.connections import MAX_SQL, MAX_VALUE
from engine.door import Caller, DoorRequest, DoorResponse
from tests.doors.tables.tables_door import Answer, Tables

NUMBERS = "with recursive n(i) as (select 1 union all select i + 1 from n where i < $1)"
FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n)"


def test_result_over_row_limit_is_refused(tables: Tables) -> None:
    assert len(tables.query(f"{NUMBERS} select i from n", MAX_ROWS).rows) == MAX_ROWS
    answer = tables.query(f"{NUMBERS} select i from n", MAX_ROWS + 1)
    assert (answer.status, answer.code) == (413, "too-large")
    assert "LIMIT" in answer.document["hint"]


def test_million_row_table_is_refused_whole_and_read_by_page(tables: Tables) -> None:
    owner = tables.owner()
    owner.execute(f"insert into users (name) {NUMBERS} select 'user ' || i from n", (1_000_000,))
    owner.close()
    assert tables.query("select * from users").code == "too-large"
    page = tables.query("select id from users where id > $1 order by id limit 2", 500_000).rows
    assert page == [{"id": 500_001}, {"id": 500_002}]
    assert tables.query("select count(*) as n from users").rows == [{"n": 1_000_000}]


def test_result_over_size_limit_is_refused(tables: Tables) -> None:
    sql = f"{NUMBERS} select hex(zeroblob($2)) as a from n"
    piece = 100_000
    assert len(tables.query(sql, 20, piece).text) > MAX_RESULT * 0.9
    assert tables.query(sql, 21, piece).code == "too-large"
    answer = tables.batch(*[(sql, 2, piece)] * 11)
    assert (answer.code, answer.document["statement"]) == ("too-large", 10)


def test_oversized_returning_result_rolls_back_write(tables: Tables) -> None:
    answer = tables.exec(f"insert into users (name) {NUMBERS} select i from n returning id", MAX_ROWS + 1)
    assert answer.code == "too-large"
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]


@pytest.mark.parametrize(
    "sql",
    [
        "select zeroblob(2000000000) as a",
        "select length(randomblob(5000000)) as a",
        "select printf('%.*c', 100000000, 'x') as a",
        "select group_concat(hex(zeroblob(1000))) as a from (select 1 from json_each($1))",
        "select replace(hex(zeroblob(1000)), '0', hex(zeroblob(1000))) as a",
    ],
)
def test_computed_value_over_size_limit_is_refused(tables: Tables, sql: str) -> None:
    params = [list(range(1000))] if "$1" in sql else []
    assert tables.query(sql, *params).code == "too-large"


@pytest.mark.parametrize(
    "function",
    [
        "json_group_array(printf('%.900000c', 'x'))",
        "jsonb_group_object(i, printf('%.900000c', 'x'))",
        "median(i), percentile(-i, 1), percentile_cont(i * 2, 0.1), percentile_disc(i * 3, 0.1)",
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_values_collected_in_memory_above_limit_are_refused(
    tables: Tables, function: str, write: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reader, writer):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 60)
    apsw.memory_high_water(True)
    before = apsw.memory_used()
    sql = f"{FOREVER} select {function} from n"
    answer = tables.exec(f"insert into users (name) select 1 from ({sql})") if write else tables.query(sql)
    assert (answer.status, answer.code) == (413, "too-large")
    assert "the statement collected more than 64 MiB" in answer.document["detail"]
    assert apsw.memory_high_water() - before < 512 << 20
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]
    assert tables.query(
        f"{NUMBERS} select json_array_length(json_group_array(i)) as n from n", 90_000
    ).rows == [{"n": 90_000}]


def test_parameter_over_size_limit_is_refused(tables: Tables) -> None:
    assert tables.query("select length($1) as n", "x" * (MAX_VALUE - 100)).rows == [{"n": MAX_VALUE - 100}]
    for answer in (
        tables.query("select length($1) as n", "x" * (MAX_VALUE + 1)),
        tables.exec("insert into users (name) values ($1)", "é" * (MAX_VALUE // 2 + 1)),
    ):
        assert (answer.status, answer.code) == (413, "too-large")
        assert answer.document["detail"] == f"$1 has more than {MAX_VALUE} bytes"
    sql = "insert into users (age, name) values ($1, $2 || $2)"
    answer = tables.exec(sql, 1, "x" * (MAX_VALUE // 2 + 1))
    assert answer.document["detail"] == f"a value or a row has more than {MAX_VALUE} bytes"


@pytest.mark.parametrize("value", [b"[],", b"1,", b"{},", b'"",'])
def test_request_of_too_many_values_is_refused_outside_the_event_loop(tables: Tables, value: bytes) -> None:
    body = b'{"sql":"select 1","params":[' + value * 1_000_000 + b"1]}"
    answer = tables.send("/v1/query", body)
    assert (answer.status, answer.code, answer.synchronous) == (413, "too-large", False)
    assert "400,000 values" in answer.document["detail"]


def test_large_batch_of_many_values_is_stored(tables: Tables) -> None:
    rows = ", ".join(f"(${number})" for number in range(1, 101))
    sql = f"insert into users (name) values {rows}"
    names = [f"user, {number} [x]" for number in range(30_000)]
    answer = tables.batch(*((sql, *names[at : at + 100]) for at in range(0, len(names), 100)))
    assert (answer.status, answer.synchronous) == (200, False)
    assert tables.query("select count(*) as n, count(distinct name) as m from users").rows == [
        {"n": 30_000, "m": 30_000}
    ]
    assert tables.send("/v1/query", b'{"sql":"select 1","params":[' + b"1," * 50_000 + b"NaN]}").status == 400


def test_statement_over_length_limit_is_refused(tables: Tables) -> None:
    assert tables.query("select 1 as a --".ljust(MAX_SQL, "x")).rows == [{"a": 1}]
    for answer in (tables.query("select 1 as a".ljust(MAX_SQL + 1)), tables.exec("x" * 1_000_000)):
        assert (answer.status, answer.code) == (413, "too-large")
        assert "statement" in answer.document["detail"]


@pytest.mark.parametrize(
    "sql",
    [
        "select " + "+".join(["1"] * 1000),
        " union all ".join(["select 1 as a"] * 200),
        "select " + ",".join(f"1 as a{i}" for i in range(1000)),
        "select max(" + ",".join(["1"] * 500) + ") as a",
        "select 1 as a from users where " + " or ".join(["id = 1"] * 1000),
        "select 1 as a from " + ", ".join(f"users u{i}" for i in range(100)),
    ],
)
def test_statements_over_sqlite_compiler_limits_are_refused(tables: Tables, sql: str) -> None:
    assert tables.query(sql).code == "sql-error"


@pytest.mark.parametrize(
    "sql",
    [
        f"{FOREVER} select count(*) as n from n",
        f"{FOREVER} select i as n from n where i < 0",
        f"{FOREVER} select max(i) as n from n order by 1",
        "select count(*) as n from json_each($1) a, json_each($1) b, json_each($1) c, json_each($1) d",
    ],
)
def test_endless_read_times_out(tables: Tables, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TIMEOUT_SECONDS", 0.2)
    params = [list(range(1000))] if "$1" in sql else []
    began = time.monotonic()
    answer = tables.query(sql, *params)
    assert (answer.status, answer.code, answer.synchronous) == (504, "time-limit", False)
    assert "read exceeded its time limit of 0.2 s" in answer.document["detail"]
    assert answer.document["hint"] == "Add an index or a LIMIT."
    assert time.monotonic() - began < 20


def test_statement_of_slow_steps_times_out(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TIMEOUT_SECONDS", 0.2)
    began = time.process_time()
    answer = tables.query(f"{FOREVER} select sum(length(hex(randomblob(500000)))) as n from n")
    assert (answer.status, answer.code) == (504, "time-limit")
    assert time.process_time() - began < 3


def test_values_of_statement_with_many_calls_are_limited(tables: Tables) -> None:
    calls = ", ".join(f"json_valid($1, {number % 4 + 1}) as a{number}" for number in range(400))
    assert tables.query(f"select {calls}", "[1]").status == 200
    answer = tables.query(f"select {calls}", "[" + "1," * 200_000 + "1]")
    assert (answer.status, answer.code) == (413, "too-large")
    assert "this statement" in answer.document["detail"]
    assert tables.query("select json_valid($1) as a", "[" + "1," * 200_000 + "1]").rows == [{"a": 1}]


def test_patch_of_many_names_is_refused(tables: Tables) -> None:
    names = "{" + ",".join(f'"{number}":1' for number in range(40_000)) + "}"
    answer = tables.query("select json_patch('{}', $1) as a", names)
    assert (answer.status, answer.code) == (413, "too-large")


def test_endless_write_times_out_and_is_rolled_back(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 0.2)
    answer = tables.exec(f"insert into users (name) {FOREVER} select 'u' || i from n")
    assert (answer.status, answer.code) == (504, "time-limit")
    assert "limit of 0.2 s; nothing was written" in answer.document["detail"]
    assert answer.document["hint"].startswith("Write fewer rows in a request")
    assert tables.query("select count(*) as n from users").rows == [{"n": 0}]
    assert tables.exec("insert into users (name) values ('Ada')").status == 200


def test_long_read_does_not_block_short_read(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TIMEOUT_SECONDS", 1.0)
    body = json.dumps({"sql": f"{FOREVER} select count(*) as n from n"}).encode()

    async def run_both() -> bool:
        long = asyncio.ensure_future(tables.send_async("/v1/query", body))
        await asyncio.sleep(0)
        short = await tables.send_async("/v1/query", b'{"sql": "select 1 as a"}')
        return short.synchronous and not long.done() and (await long).code == "time-limit"

    tables.query("select 1 as warm")
    assert tables.run(run_both())


def test_slow_functions_run_off_the_event_loop(tables: Tables) -> None:
    tables.query("select 1 as warm")
    assert not tables.query("select instr($1, 'b') as a", "aaa").synchronous
    assert not tables.query("select 1 as a where 'abc' like 'a%'").synchronous
    assert tables.query("select upper($1) as a", "aaa").synchronous


def test_full_table_count_runs_off_the_event_loop(tables: Tables) -> None:
    tables.query("select 1 as warm")
    assert not tables.query("select count(*) as n from users").synchronous
    assert not tables.query("select (select count(*) from users) as n").synchronous
    assert tables.query("select count(*) as n from users where id < $1", 5).synchronous


def test_large_results_are_read_off_the_event_loop(tables: Tables) -> None:
    tables.exec("insert into users (name, age) values ($1, 1), ('small', 2)", "x" * 100_000)
    assert tables.query("select name from users where age = 2").synchronous
    answer = tables.query("select name from users where age = 1")
    assert (answer.synchronous, len(answer.rows[0]["name"])) == (False, 100_000)
    answer = tables.query("select hex(zeroblob(30000)) as a from json_each($1)", list(range(10)))
    assert (answer.synchronous, len(answer.rows)) == (False, 10)
    answer = tables.batch(*[("select hex(zeroblob(30000)) as a",)] * 10)
    assert (answer.synchronous, len(answer.document["results"])) == (False, 10)


def test_plan_cache_is_bounded(tables: Tables) -> None:
    for number in range(1500):
        assert tables.query(f"select {number} as a").rows == [{"a": number}]
    store = tables.opened._database
    assert store is not None
    assert store._reader._quick._plans.cache_info().currsize <= 512


def test_canceled_read_is_interrupted(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TIMEOUT_SECONDS", 60.0)
    body = json.dumps({"sql": f"{FOREVER} select count(*) as n from n"}).encode()
    tables.query("select 1 as warm")

    async def cancel_reads() -> Answer:
        long = [asyncio.ensure_future(tables.send_async("/v1/query", body)) for _ in range(reader.PER_FILE)]
        await asyncio.sleep(0.1)
        for each in long:
            each.cancel()
        return await tables.send_async("/v1/query", b'{"sql": "select 1 as a where 1 like 1"}')

    began = time.monotonic()
    assert tables.run(cancel_reads()).rows == [{"a": 1}]
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("path", "sql"),
    [
        ("/v1/query", f"{FOREVER} select count(*) as n from n"),
        ("/v1/exec", f"insert into kept {FOREVER} select i from n"),
    ],
)
def test_answer_canceled_before_its_first_step_is_interrupted(
    tables: Tables, path: str, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 300.0)
    tables.schema("create table kept (a integer)")
    tables.query("select 1 as opened")
    body = json.dumps({"sql": sql}).encode()

    async def cancel_at_once() -> None:
        answer = tables.opened.answer(
            DoorRequest("POST", path, query="", headers=(), body=body, caller=Caller("web", "request-1"))
        )
        assert not isinstance(answer, DoorResponse)
        task = asyncio.ensure_future(answer)
        task.cancel()
        await asyncio.wait([task])
        database = tables.opened._database
        assert database is not None
        async with asyncio.timeout(60):
            while database.in_progress:  # noqa: ASYNC110 - the write is interrupted
                await asyncio.sleep(0.01)

    tables.run(cancel_at_once())


def test_canceled_write_is_stopped_and_rolled_back(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "TIMEOUT_SECONDS", 60.0)
    tables.schema("create table kept (a integer)")
    body = json.dumps({"sql": f"insert into kept {FOREVER} select i from n"}).encode()

    async def cancel_writes() -> Answer:
        endless = [asyncio.ensure_future(tables.send_async("/v1/exec", body)) for _ in range(3)]
        await asyncio.sleep(0.1)
        for each in endless:
            each.cancel()
        store = tables.opened._database
        assert store is not None
        while store._writer.session.running:
            assert time.monotonic() - began < 30
            await asyncio.sleep(0.02)
        return await tables.send_async("/v1/exec", b'{"sql": "insert into kept values (1)"}')

    began = time.monotonic()
    assert tables.run(cancel_writes()).status == 200
    assert tables.query("select a from kept").rows == [{"a": 1}]


BLOBS = f"{NUMBERS} select randomblob(100000) as z, i from n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes that a thread writes")
def test_statements_above_temporary_space_are_stopped(
    open_tables: Callable[..., Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doors.tables.door.MAX_WRITTEN_BYTES", 64 << 20)
    tables = open_tables()
    tables.schema("create table blobs (z blob) strict")
    sort = f"select max(length(z)) as a from ({BLOBS} order by z limit -1 offset 1)"
    assert tables.query(sort, 100).rows == [{"a": 100_000}]
    answer = tables.query(sort, 100_000)
    assert (answer.status, answer.code) == (413, "too-large")
    assert "temporary data" in answer.document["detail"]
    answer = tables.exec(f"insert into blobs select z from ({BLOBS})", 100_000)
    assert (answer.status, answer.code) == (413, "too-large")
    assert tables.query("select count(*) as n from blobs").rows == [{"n": 0}]
    assert tables.query(sort, 100).rows == [{"a": 100_000}]
