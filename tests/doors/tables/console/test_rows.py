"""Rows changed over the control API: many at once, each only if unchanged since it was read."""

import base64
import json
from typing import Any

import pytest

from doors.tables.api import routes
from doors.tables.sqlite.connections import open_owner
from svc_tui.client import ApiError, Client
from tests.doors.tables.console.grids import open_grid, window
from tests.doors.tables.console.shop import Shop


def apply_changes(shop: Shop, *changes: dict[str, Any], table: str = "users", **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = shop.post("rows", {"table": table, "changes": changes, **more})
    return result


def names(shop: Shop) -> list[str]:
    return [row["name"] for row in shop.query("select name from users order by id")["rows"]]


def test_change_set_inserts_updates_and_deletes_rows(users: Shop) -> None:
    result = apply_changes(
        users,
        {"insert": {"name": "Edsger"}},
        {"update": {"key": {"id": 1}, "expected": {"name": "Ada"}, "set": {"name": "Ada L."}}},
        {"delete": {"key": [2], "expected": {"name": "Grace"}}},
        {"insert": {"id": 9, "NAME": "Alan", "joined": None}},
    )
    assert (result["applied"], result["conflicts"], result["errors"]) == (4, [], [])
    assert result["inserted"] == [[3], [9]]
    assert [(each["index"], each["key"]) for each in result["rows"]] == [
        (0, [3]),
        (1, [1]),
        (2, [2]),
        (3, [9]),
    ]
    first, second, third, fourth = (each["row"] for each in result["rows"])
    assert first["name"] == "Edsger" and first["joined"].endswith("Z")
    assert second["name"] == "Ada L." and third is None
    assert fourth == {"id": 9, "name": "Alan", "joined": None}
    assert names(users) == ["Ada L.", "Edsger", "Alan"]


def test_changed_row_is_conflict_and_rolls_back_change_set(users: Shop) -> None:
    users.query("update users set name = 'Grace H.' where id = 2", write=True)
    changes = (
        {"insert": {"name": "Edsger"}},
        {"update": {"key": [2], "expected": {"name": "Grace"}, "set": {"name": "G."}}},
        {"delete": {"key": [7], "expected": {"name": "stranger"}}},
    )
    result = apply_changes(users, *changes)
    assert (result["applied"], result["errors"], result["inserted"], result["rows"]) == (0, [], [], [])
    first, second = result["conflicts"]
    assert (first["index"], first["reason"], first["columns"]) == (1, "changed", ["name"])
    assert first["current"]["name"] == "Grace H." and first["current"]["id"] == 2
    assert second == {"index": 2, "reason": "deleted", "columns": [], "current": None}
    assert names(users) == ["Ada", "Grace H."]
    result = apply_changes(users, *changes, conflicts="skip")
    assert (result["applied"], len(result["conflicts"]), result["inserted"]) == (1, 2, [[3]])
    assert names(users) == ["Ada", "Grace H.", "Edsger"]


def test_rows_are_changed_by_a_timestamp_in_any_form(shop: Shop) -> None:
    texts = ("2024-01-01 10:00:00", "2024-01-01T10:00:00.000Z", "2024-01-01 10:00:00.123456+02", "soon")
    shop.query("create table readings (at datetime primary key not null, n int) without rowid", write=True)
    for n, text in enumerate(texts):
        shop.query("insert into readings values ($1, $2)", text, n, write=True)
    grid = open_grid(shop, "readings")
    page = window(shop, grid)
    assert sorted(page["keys"]) == sorted([text] for text in texts)
    known = [
        {"key": key, "version": version} for key, version in zip(page["keys"], page["versions"], strict=True)
    ]
    states = shop.post(f"grid/{grid['grid']}/refresh", {"rows": known})["rows"]
    assert {each["state"] for each in states} == {"unchanged"}
    changes = [
        {"update": {"key": key, "expected": {"n": row[1]}, "set": {"n": row[1] + 10}}}
        for key, row in zip(page["keys"], page["rows"], strict=True)
    ]
    result = apply_changes(shop, *changes, table="readings")
    assert (result["applied"], [each["key"] for each in result["rows"]]) == (4, page["keys"])
    history = shop.get("tables/history", table="readings", key=json.dumps([texts[0]]))["rows"]
    assert [each["after"]["n"] for each in history] == [10, 0]
    stored = shop.query("select cast(at as blob) as at from readings")["rows"]
    assert sorted(base64.b64decode(row["at"]).decode() for row in stored) == sorted(texts)


@pytest.mark.parametrize("change", [{"set": {"text": "mine"}}, {}])
@pytest.mark.parametrize("kind", ["text", "blob"])
def test_truncated_cell_that_changed_is_a_conflict(shop: Shop, change: dict[str, Any], kind: str) -> None:
    shop.query(f"create table notes (id integer primary key, text {kind})", write=True)
    shop.query(f"insert into notes values (1, cast(printf('%.*c', 3000, 'é') as {kind}))", write=True)
    expected = {"text": window(shop, open_grid(shop, "notes"))["rows"][0][1]}
    assert expected["text"]["size"] == 6000
    edit = {("update" if change else "delete"): {"key": [1], "expected": expected, **change}}
    for sql in ("text || 'x'", "'X' || substr(text, 3)", "'short'", "null"):
        shop.query(f"update notes set text = cast({sql} as {kind})", write=True)
        (conflict,) = apply_changes(shop, edit, table="notes")["conflicts"]
        assert (conflict["reason"], conflict["columns"]) == ("changed", ["text"])
        shop.query(f"update notes set text = cast(printf('%.*c', 3000, 'é') as {kind})", write=True)
    assert apply_changes(shop, edit, table="notes")["applied"] == 1


@pytest.mark.parametrize(
    ("change", "column", "constraint", "words"),
    [
        ({"insert": {"name": "Ada"}}, "name", "unique", 'another row already has name "Ada"'),
        ({"insert": {"id": 2, "name": "x"}}, "id", "primary-key", "another row already has id 2"),
        ({"insert": {"id": 5}}, "name", "not-null", "name must have a value"),
        (
            {"insert": {"id": "five", "name": "x"}},
            "id",
            "type",
            'id is integer: "five" is not a whole number',
        ),
        ({"insert": {"name": {"base64": "AA=="}}}, "name", "type", "is a blob"),
        ({"update": {"key": [1], "set": {"joined": "soon"}}}, "joined", "type", "is not a timestamp"),
        ({"update": {"key": [1], "set": {"joined": "2026-02-30"}}}, "joined", "type", "calendar"),
        ({"update": {"key": [1], "set": {"nme": "x"}}}, None, "", "no column nme"),
        ({"update": {"key": [1], "set": {"name": "x", "NAME": "y"}}}, "name", "", "twice"),
        ({"update": {"key": [1], "expected": {"nme": "x"}, "set": {"name": "x"}}}, None, "", "no column nme"),
        ({"delete": {"key": {"name": "Ada"}}}, None, "", "the key is id, not name"),
        ({"delete": {"key": [1, 2]}}, None, "", "1 values, not 2"),
    ],
)
def test_invalid_change_names_column_and_constraint(
    users: Shop, change: Any, column: str | None, constraint: str, words: str
) -> None:
    result = apply_changes(users, {"insert": {"name": "Edsger"}}, change, conflicts="skip")
    (error,) = result["errors"]
    assert (error["index"], error["column"], error["constraint"]) == (1, column, constraint)
    assert words in error["message"]
    assert (result["applied"], result["rows"], names(users)) == (0, [], ["Ada", "Grace"])


def test_all_invalid_changes_are_reported(users: Shop) -> None:
    result = apply_changes(users, *({"insert": {"name": name}} for name in ("Ada", "x", "Grace", None)))
    assert [error["index"] for error in result["errors"]] == [0, 2, 3]


def test_constraint_violations_have_readable_messages(users: Shop) -> None:
    connection = open_owner(users.data / "tables" / "tables.db")
    connection.execute(
        "create table posts (id integer primary key, author integer references users (id), stars integer"
        " check (stars between 1 and 5)) strict;"
        "create table lost (up integer references nowhere);"
        "create trigger calm before update on posts when new.stars = 1 begin"
        " select raise(abort, 'be kind'); end;"
        "create trigger deaf before delete on posts begin select raise(ignore); end;"
        "insert into posts values (1, 1, 5)"
    )
    connection.close()

    def violation(change: dict[str, Any], table: str = "posts") -> tuple[Any, ...]:
        (error,) = apply_changes(users, change, table=table)["errors"]
        return error["column"], error["constraint"], error["message"]

    assert violation({"insert": {"stars": 9}})[:2] == ("stars", "check")
    assert violation({"insert": {"author": 8}}) == (
        "author",
        "foreign-key",
        "author 8 refers to a missing row of users",
    )
    assert violation({"delete": {"key": [1]}}, "users") == (
        None,
        "foreign-key",
        "rows of posts refer to this one",
    )
    assert "be kind" in violation({"update": {"key": [1], "set": {"stars": 1}}})[2]
    assert "ignored" in violation({"delete": {"key": [1]}})[2]


def test_changes_to_keyless_table_or_view_are_refused(users: Shop) -> None:
    users.change({"op": "create-table", "table": "log", "columns": [{"name": "line", "type": "text"}]})
    users.query("create view names as select name from users", write=True)
    for table, words in (("log", "no primary key"), ("names", "is a view")):
        with pytest.raises(ApiError, match=words) as exc_info:
            apply_changes(users, {"insert": {"line": "x"}}, table=table)
        assert exc_info.value.code == "read-only"
        grid = users.post("grid", {"table": table})
        assert not grid["editable"] and words in grid["reason"] and grid["key"] == []
    with pytest.raises(ApiError) as exc_info:
        apply_changes(users, {"insert": {"line": "x"}}, table="nothing")
    assert exc_info.value.code == "not-found"


def test_rows_of_without_rowid_table_are_changed_by_key(shop: Shop) -> None:
    shop.query("create table t (a text, b integer, v text, primary key (b, a)) without rowid", write=True)
    result = apply_changes(shop, {"insert": {"a": "x", "b": 1, "v": "one"}}, table="t")
    assert result["inserted"] == [[1, "x"]]
    result = apply_changes(
        shop, {"update": {"key": [1, "x"], "expected": {"v": "one"}, "set": {"b": 2}}}, table="t"
    )
    assert result["rows"] == [{"index": 0, "key": [2, "x"], "row": {"a": "x", "b": 2, "v": "one"}}]
    assert apply_changes(shop, {"delete": {"key": {"a": "x", "b": 2}}}, table="t")["applied"] == 1


def test_viewer_cannot_change_rows(users: Shop, address: str) -> None:
    with Client(address, "viewer") as client, pytest.raises(ApiError, match="role deployer"):
        apply_changes(Shop(client, users.data), {"insert": {"name": "x"}})
    with Client(address, "deployer") as client:
        assert apply_changes(Shop(client, users.data), {"insert": {"name": "x"}})["applied"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"table": "users", "changes": []},
        {"table": "users", "changes": [{"upsert": {}}]},
        {"table": "users", "changes": [{"insert": {"name": "x"}, "delete": {"key": [1]}}]},
        {"table": "users", "changes": [{"update": {"key": [1], "set": {}}}]},
        {"table": "users", "changes": [{"delete": {"key": 1}}]},
        {"table": "users", "changes": [{"delete": {"key": [1]}}], "conflicts": "ignore"},
    ],
)
def test_malformed_change_set_is_refused(users: Shop, body: Any) -> None:
    with pytest.raises(ApiError) as exc_info:
        users.post("rows", body)
    assert exc_info.value.code == "invalid"


def test_change_set_with_too_many_values_is_refused(users: Shop) -> None:
    body = {"table": "users", "changes": [{"insert": {"name": [0] * routes.MAX_VALUES}}]}
    with pytest.raises(ApiError, match="more than 1,000,000 values") as exc_info:
        users.post("rows", body)
    assert exc_info.value.code == "body-too-large"


def test_long_change_set_reports_only_its_first_malformed_change(users: Shop) -> None:
    change = {"insert": {"name": "x" * 100}, **dict.fromkeys(map(str, range(15)))}
    with pytest.raises(ApiError, match=r"^changes\.1\.") as exc_info:
        users.post("rows", {"table": "users", "changes": [{"insert": {"name": "x"}}, *[change] * 5000]})
    assert exc_info.value.code == "invalid"
    assert (
        apply_changes(users, *[{"insert": {"name": f"name {number}" * 20}} for number in range(2000)])[
            "applied"
        ]
        == 2000
    )
