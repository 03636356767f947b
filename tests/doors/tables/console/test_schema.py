"""Tables listed, shown and changed over the control API."""

from pathlib import Path
from typing import Any

import pytest

from doors.tables.sqlite.connections import open_owner
from svc_tui.client import ApiError
from tests.doors.tables.console.shop import USERS, Shop


def test_reading_empty_project_creates_no_file(shop: Shop) -> None:
    assert shop.get("tables") == {"tables": []}
    assert shop.get("migrations") == {"applied": []}
    assert shop.query("select 1 as one")["rows"] == [{"one": 1}]
    assert not (shop.data / "tables").exists()


def test_table_document_has_columns_indexes_and_notes(users: Shop) -> None:
    users.change({"op": "create-index", "table": "users", "columns": ["joined", "name"]})
    result = users.get("table", name="USERS")
    assert (result["name"], result["kind"], result["note"], result["key"]) == (
        "users",
        "table",
        "who is here",
        ["id"],
    )
    assert result["rows"] == 2
    assert [column["name"] for column in result["columns"]] == ["id", "name", "joined"]
    assert result["columns"][1] == {
        "name": "name",
        "type": "text",
        "nullable": False,
        "default": None,
        "primary_key": False,
        "unique": True,
        "note": "as they are called",
        "generated": False,
    }
    assert result["columns"][2]["default"] == "now()"
    assert result["indexes"] == [
        {"name": "users_joined_name_index", "columns": ["joined", "name"], "unique": False, "partial": False}
    ]
    assert users.get("tables") == {"tables": [result]}


def test_schema_changes_apply_in_order(users: Shop) -> None:
    users.change(
        {"op": "rename-column", "table": "users", "column": "name", "name": "full name"},
        {"op": "add-column", "table": "users", "column": {"name": "age", "type": "text"}},
        {"op": "retype-column", "table": "users", "column": "age", "type": "integer"},
        {"op": "set-default", "table": "users", "column": "age", "default": "7"},
        {"op": "set-nullable", "table": "users", "column": "full name", "nullable": True},
        {"op": "set-unique", "table": "users", "column": "full name", "unique": False},
        {"op": "set-note", "table": "users", "note": "people"},
        {"op": "set-primary-key", "table": "users", "columns": []},
        {"op": "drop-column", "table": "users", "column": "joined"},
        {"op": "create-index", "table": "users", "columns": ["age"], "name": "by age"},
        {"op": "drop-index", "name": "by age"},
        {"op": "rename-table", "table": "users", "name": "people"},
    )
    (table,) = users.get("tables")["tables"]
    assert (table["name"], table["note"], table["key"], table["rows"]) == ("people", "people", [], 2)
    assert [column["name"] for column in table["columns"]] == ["id", "full name", "age"]
    users.change({"op": "drop-table", "table": "people"})
    assert users.get("tables") == {"tables": []}


def test_schema_changes_with_one_failure_change_nothing(users: Shop) -> None:
    before = users.get("tables")
    with pytest.raises(ApiError) as exc_info:
        users.change(
            {"op": "drop-column", "table": "users", "column": "joined"},
            {"op": "retype-column", "table": "users", "column": "name", "type": "integer"},
        )
    assert "Ada" in exc_info.value.message and exc_info.value.hint
    assert users.get("tables") == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"op": "explode", "table": "users"}, "op"),
        ({"op": "drop-table"}, "table"),
        ({"op": "drop-table", "table": 7}, "table"),
        ({"op": "drop-table", "table": "users", "cascade": True}, "cascade"),
        ({**USERS, "columns": [{"name": "a", "type": "varchar"}]}, "type"),
        ({**USERS, "columns": [{"name": "a", "type": "text", "nulable": True}]}, "nulable"),
    ],
)
def test_malformed_schema_change_names_field(shop: Shop, change: Any, words: str) -> None:
    with pytest.raises(ApiError) as exc_info:
        shop.change(change)
    assert exc_info.value.code == "invalid" and words in exc_info.value.message


def test_create_table_with_existing_name_is_conflict(users: Shop) -> None:
    with pytest.raises(ApiError) as exc_info:
        users.change(USERS)
    assert exc_info.value.code == "conflict" and "table users already" in exc_info.value.message


def test_missing_table_or_project_is_not_found(users: Shop) -> None:
    with pytest.raises(ApiError) as exc_info:
        users.get("table", name="usres")
    assert exc_info.value.code == "not-found" and "Available: users." in exc_info.value.hint
    with pytest.raises(ApiError, match="project blog not found"):
        users.client.call("GET", "/v1/projects/blog/tables")


def test_table_names_with_special_characters_round_trip(shop: Shop) -> None:
    for name in ("a/b//c", "..", "%2F", 'say "hi"', "prix & coûts?", "表"):
        shop.change({"op": "create-table", "table": name, "columns": [{"name": name, "type": "text"}]})
        assert shop.get("table", name=name)["columns"][0]["name"] == name


def test_broken_view_is_listed_without_row_count(users: Shop) -> None:
    connection = open_owner(users.data / "tables" / "tables.db")
    connection.execute("create view gone as select * from missing")
    connection.close()
    (view, _) = users.get("tables")["tables"]
    assert (view["name"], view["kind"], view["rows"]) == ("gone", "view", None)


def test_migrations_are_planned_applied_once_and_listed(shop: Shop) -> None:
    files = [{"name": "tables/1.sql", "sql": "create table a (x integer) strict;"}]
    assert shop.post("migrations", {"files": files, "plan": True}) == {"applied": ["tables/1.sql"]}
    assert not (shop.data / "tables").exists()
    assert shop.post("migrations", {"files": files}) == {"applied": ["tables/1.sql"]}
    assert shop.post("migrations", {"files": files}) == {"applied": []}
    (migration,) = shop.get("migrations")["applied"]
    assert migration["name"] == "tables/1.sql" and len(migration["sha256"]) == 64
    assert migration["applied"].endswith("Z")
    broken = [*files, {"name": "tables/2.sql", "sql": "create table b (y integer) strict;\nselect 1 frmo b;"}]
    with pytest.raises(ApiError, match=r"tables/2\.sql:2: "):
        shop.post("migrations", {"files": broken})
    assert [table["name"] for table in shop.get("tables")["tables"]] == ["a"]


def test_migrations_request_has_larger_body_limit(shop: Shop) -> None:
    rows = ",".join(f"({number}, '{'x' * 100}')" for number in range(60_000))
    sql = f"create table a (n integer, t text) strict; insert into a values {rows};"
    shop.post("migrations", {"files": [{"name": "tables/1.sql", "sql": sql}]})
    assert shop.get("table", name="a")["rows"] == 60_000
    with pytest.raises(ApiError) as exc_info:
        shop.query("select 1", "x" * (5 << 20))
    assert exc_info.value.code == "body-too-large"


def test_damaged_database_is_reported_and_unchanged(shop: Shop) -> None:
    path: Path = shop.data / "tables" / "tables.db"
    path.parent.mkdir()
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(ApiError, match="damaged"):
        shop.get("tables")
    with pytest.raises(ApiError, match="damaged"):
        shop.change(USERS)
    assert path.read_bytes() == b"garbage " * 1000


def test_openapi_document_lists_every_route(shop: Shop) -> None:
    document = shop.client.call("GET", "/openapi.json")
    paths = {path.rpartition("/")[2] for path in document["paths"]}
    assert {"tables", "table", "schema", "sql", "migrations", "import", "preview", "export"} <= paths
    schema = document["paths"]["/v1/projects/{project}/schema"]["post"]
    assert "create-table" in str(schema["requestBody"]) + str(document["components"])
