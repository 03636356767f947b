"""SQL over the control API: results, permissions and limits."""

import base64
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from doors.tables.api import query as console_sql
from doors.tables.sqlite import connections
from doors.tables.sqlite.connections import open_owner
from engine.control.streaming_body import MAX_VALUES
from svc_tui.client import ApiError, Client
from tests.doors.tables.console.shop import Shop

KEY = {"name": "id", "type": "integer", "primary_key": True}


def refused_query(shop: Shop, sql: str, *params: Any, **more: Any) -> ApiError:
    with pytest.raises(ApiError) as exc_info:
        shop.query(sql, *params, **more)
    return exc_info.value


def test_query_returns_named_values_and_column_types(users: Shop) -> None:
    result = users.query("select name, joined, id + 1 as next from users where id = $1", 2)
    assert result["columns"] == [
        {"name": "name", "type": "text"},
        {"name": "joined", "type": "timestamp"},
        {"name": "next", "type": ""},
    ]
    (row,) = result["rows"]
    assert (row["name"], row["next"]) == ("Grace", 3) and row["joined"].endswith("Z")
    assert (result["truncated"], result["changes"]) == (None, 0)


def test_values_of_every_type_round_trip(shop: Shop) -> None:
    types = ["integer", "real", "text", "boolean", "timestamp", "json", "blob"]
    columns = [{"name": type, "type": type} for type in types]
    shop.change({"op": "create-table", "table": "t", "columns": columns})
    blob = base64.b64encode(b"\0\xff").decode()
    values = [2**63 - 1, 1.5, 'nul \0 and "', True, "2026-01-02T03:04:05.678Z", {"a": [1]}, {"base64": blob}]
    shop.query("insert into t values ($1,$2,$3,$4,$5,$6,$7)", *values, write=True)
    (row,) = shop.query("select * from t")["rows"]
    assert list(row.values()) == [*values[:6], blob]


def test_cells_have_documents_and_blobs_as_a_grid(shop: Shop) -> None:
    columns = [{"name": type, "type": type} for type in ("json", "blob", "boolean", "real")]
    shop.change({"op": "create-table", "table": "t", "columns": columns})
    document = '{"a": 1.10,\n "b": [123456789012345678.123, 1e999]}'
    shop.query("insert into t values ($1, x'00', true, 9e999)", document, write=True)
    (row,) = shop.query("select *, json as text, 1.5 as half from t", cells=True)["rows"]
    assert row == {
        "json": document,
        "blob": {"base64": "AA=="},
        "boolean": True,
        "real": math.inf,
        "text": document,
        "half": 1.5,
    }


def post(address: str, path: str, body: str) -> Any:
    headers = {"authorization": "Bearer owner", "content-type": "application/json"}
    return httpx.post(f"{address}/v1/projects/shop/{path}", content=body, headers=headers, timeout=60).json()


def test_numbers_within_parameters_and_cells_are_stored_exactly(shop: Shop, address: str) -> None:
    shop.change({"op": "create-table", "table": "t", "columns": [KEY, {"name": "doc", "type": "json"}]})
    document = '{"a":[123456789012345678.123,1.10,1e999,-0.0]}'
    insert = f'{{"sql": "insert into t (doc) values ($1)", "params": [{document}], "write": true}}'
    inserts = ", ".join(f'{{"insert": {{"doc": {each}}}}}' for each in (document, "1e400"))
    changes = f'{{"table": "t", "changes": [{inserts}]}}'
    for path, body in (("sql", insert), ("rows", changes), ("sql", insert + " " * (64 << 10))):
        post(address, path, body)
    rows = shop.query("select cast(doc as text) as doc from t")["rows"]
    assert [row["doc"] for row in rows] == [document, document, "1e400", document]


def test_number_beyond_a_real_is_refused(shop: Shop, address: str) -> None:
    shop.change({"op": "create-table", "table": "t", "columns": [KEY, {"name": "r", "type": "real"}]})
    answer = post(address, "sql", '{"sql": "select ?", "params": [1e400]}')
    assert answer["title"] == "$1 is beyond the range of a real: 1e400"
    answer = post(address, "rows", '{"table": "t", "changes": [{"insert": {"r": 1e400}}]}')
    assert answer["errors"][0]["message"] == "r is real: 1e400 is beyond the range of a real"


def test_writing_sql_requires_write_flag(users: Shop) -> None:
    error = refused_query(users, "delete from users")
    assert error.code == "writes-in-query" and "--write" in error.hint
    assert refused_query(users, "drop table users").code == "writes-in-query"
    result = users.query("insert into users (name) values ('Edsger') returning id", write=True)
    assert (result["changes"], result["last_id"], result["rows"]) == (1, 3, [{"id": 3}])
    assert users.query("update users set joined = null", write=True)["changes"] == 3
    assert users.get("table", name="users")["rows"] == 3


def test_write_with_truncated_rows_is_applied_in_full(shop: Shop) -> None:
    shop.change({"op": "create-table", "table": "t", "columns": [{"name": "n", "type": "integer"}]})
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) select i from n"
    result = shop.query(f"insert into t {numbers} returning n", write=True, limit=3)
    assert (len(result["rows"]), result["truncated"], result["changes"]) == (3, "rows", 500)
    assert shop.get("table", name="t")["rows"] == 500


def test_schema_sql_preserves_notes(users: Shop) -> None:
    users.query("alter table users rename to people", write=True)
    assert users.get("table", name="people")["columns"][1]["note"] == "as they are called"
    assert "takes no parameters" in refused_query(users, "create table t (a)", 1, write=True).message
    assert "_svc" in refused_query(users, "create table _svc_x (a)", write=True).message
    users.query("create view names as select name from people", write=True)
    error = refused_query(users, "alter table people drop column name", write=True)
    assert "name" in error.message
    assert users.query("select * from names")["rows"][0] == {"name": "Ada"}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * frmo users", "at character"),
        ("select nme from users", "nme, at character 8"),
        ("select 1; select 2", "more than one statement"),
        ("", "no statement"),
        ("select $1", "no values"),
        ("select $1::text", "$1::text"),
        ("select 1 as a, 2 as a", "named a"),
        ("pragma journal_mode = delete", "journal_mode"),
        ("attach 'x.db' as x", "attached"),
        ("vacuum", "kind of statement"),
        ("vacuum into 'x.db'", ""),
        ("begin", "transaction"),
        ("commit", "transaction"),
        ("analyze", "kind of statement"),
        ("select load_extension('x')", "load_extension"),
        ("delete from _svc_notes", "svc's own"),
        ("delete from sqlite_schema", "may not be modified"),
        ("insert into users (name) values ('Ada')", "UNIQUE"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_invalid_sql_is_refused_with_reason(users: Shop, sql: str, words: str, write: bool) -> None:
    error = refused_query(users, sql, write=write)
    if write or not sql.startswith(("delete", "insert")):
        assert words in error.message, error.message
    assert users.query("select count(*) as n from users")["rows"] == [{"n": 2}]


def test_owner_can_query_schema_tables(users: Shop) -> None:
    result = users.query("select name from sqlite_schema where type = 'table' and name like 'u%'")
    assert result["rows"] == [{"name": "users"}]
    assert users.query("pragma table_info(users)")["rows"][0]["name"] == "id"
    assert users.query("select note from _svc_notes where column_name = ''")["rows"] == [
        {"note": "who is here"}
    ]
    assert users.query("explain query plan select * from users")["rows"]


def test_rows_over_limit_are_truncated(shop: Shop) -> None:
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
    assert len((result := shop.query(numbers, limit=7))["rows"]) == 7 and result["truncated"] == "rows"
    assert len((result := shop.query(numbers))["rows"]) == 10_000 and result["truncated"] == "rows"
    assert shop.query("select 1 as one", limit=1)["truncated"] is None


def test_large_values_truncate_result_by_bytes(shop: Shop) -> None:
    shop.change({"op": "create-table", "table": "t", "columns": [{"name": "v", "type": "text"}]})
    connection = open_owner(shop.data / "tables" / "tables.db")
    for _ in range(6):
        connection.execute("insert into t values (?)", ("x" * (5 << 20),))
    connection.close()
    result = shop.query("select v from t")
    assert [len(row["v"]) for row in result["rows"]] == [5 << 20] * 4 and result["truncated"] == "bytes"


def test_request_with_too_many_values_is_refused(shop: Shop) -> None:
    with pytest.raises(ApiError, match="more than 200,000 values") as exc_info:
        shop.query("select 1", [0] * MAX_VALUES)
    assert exc_info.value.code == "body-too-large"
    assert shop.query("select json_array_length(?) as n", [0] * (MAX_VALUES // 2))["rows"] == [{"n": 100_000}]


def test_endless_statement_times_out_and_is_rolled_back(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sql, "TIMEOUT_SECONDS", 0.2)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n)"
    assert refused_query(users, f"{endless} select count(*) from n").code == "timeout"
    error = refused_query(users, f"insert into users (name) {endless} select 'n' || i from n", write=True)
    assert error.code == "timeout"
    error = refused_query(users, f"create table many as {endless} select i from n", write=True)
    assert error.code == "timeout" and "SQL:1" in error.message
    assert users.query("select count(*) as n from users")["rows"] == [{"n": 2}]


def test_concurrent_writer_allows_reads_and_refuses_writes(
    users: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_MS", 50)
    other = open_owner(users.data / "tables" / "tables.db")
    other.execute("begin immediate")
    other.execute("delete from users")
    assert users.get("table", name="users")["rows"] == 2
    assert users.save("csv", "users").count(b"\n") == 3
    assert refused_query(users, "delete from users", write=True).code == "unavailable"
    with pytest.raises(ApiError, match="another writer is active"):
        users.change({"op": "drop-table", "table": "users"})
    with pytest.raises(ApiError, match="another writer is active"):
        users.load(b"name\nEve\n", table="users")
    other.execute("commit")
    other.close()
    assert users.query("insert into users (name) values ('Eve')", write=True)["changes"] == 1


def test_unstorable_parameters_are_refused(users: Shop) -> None:
    assert "64 bits" in refused_query(users, "select $1 as a", 2**63).message
    assert "base64" in refused_query(users, "select $1 as a", {"base64": "="}).message


def test_roles_limit_reads_writes_and_schema_changes(users: Shop, address: str) -> None:
    def query_as(role: str, sql: str, **more: Any) -> Any:
        with Client(address, role) as client:
            return Shop(client, users.data).query(sql, **more)

    assert query_as("viewer", "select count(*) as n from users")["rows"] == [{"n": 2}]
    assert query_as("deployer", "delete from users where id = 1", write=True)["changes"] == 1
    for role, sql in (("viewer", "delete from users"), ("deployer", "drop table users")):
        with pytest.raises(ApiError) as exc_info:
            query_as(role, sql, write=True)
        assert exc_info.value.code == "forbidden"
    with Client(address, "deployer") as client:
        deployer = Shop(client, users.data)
        with pytest.raises(ApiError, match="role owner"):
            deployer.change({"op": "drop-table", "table": "users"})
        assert deployer.post("migrations", {"files": []}) == {"applied": []}
        assert deployer.load(b"id,name\n9,Alan\n", table="users")[-1]["rows"] == 1
        for more in ({"format": "csv", "create": True, "table": "new"}, {"format": "sql"}):
            with pytest.raises(ApiError, match="role owner"):
                deployer.load(b"id\n1\n", **more)
    with Client(address, "viewer") as client:
        viewer = Shop(client, users.data)
        assert b"Alan" in viewer.save("csv", "users")
        with pytest.raises(ApiError, match="role deployer"):
            viewer.load(b"id,name\n10,Eve\n", table="users")
        with pytest.raises(ApiError, match="role deployer"):
            viewer.post("migrations", {"files": []})
        assert viewer.post("migrations", {"files": [], "plan": True}) == {"applied": []}


def test_values_above_limit_are_refused(users: Shop) -> None:
    for sql in ("select zeroblob(900000000)", "select hex(zeroblob(60000000))"):
        assert refused_query(users, sql).message.startswith("a value or a row has more than ")
    assert users.query("select length(zeroblob(8000000)) as n")["rows"] == [{"n": 8_000_000}]


@pytest.mark.skipif(not Path("/proc/thread-self/io").exists(), reason="the system counts no written bytes")
def test_statement_above_temporary_space_is_stopped(users: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_sql, "MAX_READ_BYTES", 8 << 20)
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n)"
    error = refused_query(users, f"{numbers} select x from n order by randomblob(20000)")
    assert (error.code, "more than 8 MiB of temporary data" in error.message) == ("too-large", True)
    assert users.query("select count(*) as n from users")["rows"] == [{"n": 2}]
