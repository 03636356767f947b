"""The history of rows over the control API: roles, moments, grids as they were, and reverts."""

import json
import time

import pytest

from svc_tui.client import ApiError, Client
from tests.doors.tables.console.shop import Shop


def test_history_names_the_user_and_a_revert_restores_the_row(users: Shop) -> None:
    users.post(
        "rows",
        {
            "table": "users",
            "changes": [{"update": {"key": [1], "expected": {"name": "Ada"}, "set": {"name": "Eve"}}}],
        },
    )
    found = users.get("tables/history", table="users", key="[1]", column="name")
    update, insert = found["rows"]
    assert (update["before"], update["after"]) == ({"name": "Ada"}, {"name": "Eve"})
    assert (update["write"]["by"], update["write"]["user"]) == ("edit", "owner")
    assert insert["write"]["by"] == "sql"
    entry = {"entry": update["write"]["entry"]}
    plan = users.post("tables/revert", entry | {"plan": True})
    assert (plan["applied"], plan["rows"][0]["after"]) == (False, {"name": "Ada"})
    assert users.post("tables/revert", entry)["applied"]
    assert users.query("select name from users where id = 1")["rows"] == [{"name": "Ada"}]


def test_tables_at_a_moment_are_queried_and_shown_read_only(users: Shop) -> None:
    users.query("delete from users where id = 1", write=True)
    delete, insert = users.get("tables/history", table="users", key="[1]")["rows"]
    at = {"time_ns": insert["write"]["time_ns"]}
    assert len(users.query("select * from users", at=at)["rows"]) == 2
    before = {"entry": delete["write"]["entry"], "step": -1}
    grid = users.post("grid", {"table": "users", "at": before})
    assert (grid["count"], grid["editable"]) == (2, False)
    assert grid["at"]["entry"] == insert["write"]["entry"]
    rows = users.get(f"grid/{grid['grid']}/rows", start=0, n=9)
    assert [row[0] for row in rows["rows"]] == [1, 2]
    with pytest.raises(ApiError, match="only current rows are exported"):
        users.get(f"grid/{grid['grid']}/export", format="csv")
    users.client.call("DELETE", f"/v1/projects/shop/grid/{grid['grid']}")
    after = users.post("grid", {"table": "users", "at": {"entry": insert["write"]["entry"], "step": 1}})
    assert after["count"] == 1
    users.client.call("DELETE", f"/v1/projects/shop/grid/{after['grid']}")
    for wrong, message in (
        ({"sql": "delete from users", "write": True, "at": at}, "a moment before now is read-only"),
        ({"sql": "delete from users", "at": at}, "a moment before now is read-only"),
        ({"sql": "drop table users", "at": at}, "a moment before now is read-only"),
        ({"sql": "select 1", "at": {"time_ns": 1}}, "the history of the tables begins at 20"),
        ({"sql": "select 1", "at": {"entry": "none"}}, "the history has no entry none"),
    ):
        with pytest.raises(ApiError, match=message):
            users.post("sql", wrong)


def test_tables_without_a_key_are_not_shown_as_they_were(users: Shop) -> None:
    users.query("create table loose (v)", write=True)
    users.query("create view seen as select v from loose", write=True)
    users.query("insert into users (name) values ('Eve')", write=True)
    at = {"time_ns": time.time_ns()}
    users.query("insert into loose values (1)", write=True)
    for table in ("loose", "seen"):
        for path, body in (
            ("sql", {"sql": f"select *, now() from users, {table}", "at": at}),
            ("grid", {"table": table, "at": at}),
            ("grid", {"table": table, "at": {**at, "step": -1}}),
        ):
            with pytest.raises(ApiError, match="loose has no primary key, so its rows have no history"):
                users.post(path, body)
    assert users.query("select count(*) as n from users", at=at)["rows"] == [{"n": 3}]
    assert users.get("tables/history", table="users", key="[1]")["lacks"] == []


def test_viewers_read_the_history_and_plan_and_only_deployers_revert(users: Shop, address: str) -> None:
    with Client(address, "viewer") as client:
        viewer = Shop(client, users.data)
        entry = viewer.get("tables/history", table="users", key=json.dumps([1]))["rows"][0]["write"]["entry"]
        assert viewer.post("tables/revert", {"entry": entry, "plan": True})["rows"]
        with pytest.raises(ApiError, match="deployer"):
            viewer.post("tables/revert", {"entry": entry})
    assert len(users.query("select * from users")["rows"]) == 2
