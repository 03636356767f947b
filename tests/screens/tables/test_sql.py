"""The SQL screen."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.widgets import TextArea

from screens.tables.forms import chunks
from screens.tables.sql_screen import SqlInput
from screens.tables.sql_text import (
    ResultRows,
    StatementHistory,
    describe_result,
    error_position,
    line_and_column,
    quoted_name,
)
from svc_tui.console.start import UserFile
from svc_tui.tables_syntax import ColumnTypes, TypeInfo
from tests.screens.tables.tables_tab import Shop, tables

Snapshot = Callable[[App[Any]], None]


def test_history_returns_statements_and_unfinished_draft(tmp_path: Path) -> None:
    history = StatementHistory(UserFile(tmp_path / "home" / "sql-history.json"))
    for statement in ("select 1", "select 2", "select 1"):
        history.add(statement)
    steps: Sequence[str | None] = [history.step(1, "begun"), history.step(1, ""), history.step(1, "")]
    assert steps == ["select 1", "select 2", None]
    assert [history.step(-1, ""), history.step(-1, ""), history.step(-1, "")] == ["select 1", "begun", None]
    assert StatementHistory(UserFile(tmp_path / "home" / "sql-history.json")).step(1, "") == "select 1"
    assert (tmp_path / "home" / "sql-history.json").stat().st_mode & 0o777 == 0o600


def test_unreadable_history_is_empty(tmp_path: Path) -> None:
    (tmp_path / "sql-history.json").write_text("{broken")
    assert StatementHistory(UserFile(tmp_path / "sql-history.json")).step(1, "") is None
    assert StatementHistory(UserFile(tmp_path / "sql-history.json" / "x")).step(1, "") is None
    UserFile(tmp_path / "sql-history.json" / "x").write("[]")


def test_describe_result_counts_rows_and_changes() -> None:
    columns = [{"name": "n", "type": ""}]
    assert describe_result({"columns": columns, "rows": [{"n": 1}], "truncated": None}) == "1 row"
    assert "truncated" in describe_result({"columns": columns, "rows": [{"n": 1}] * 2, "truncated": "rows"})
    assert describe_result({"columns": [], "rows": [], "truncated": None, "changes": 2}) == "2 rows changed"


def test_error_position_maps_to_line_and_column() -> None:
    assert error_position("no such column: x, at character 12 of the SQL") == 11
    assert error_position("near the end") is None
    assert line_and_column("select\n  nme", 9) == (1, 2)
    assert line_and_column("select", 2) == (0, 2)


TYPES = ColumnTypes([TypeInfo(name="json", form="document")])
RESULT = {
    "columns": [{"name": "id", "type": "integer"}, {"name": "note", "type": "json"}],
    "rows": [{"id": 1, "note": 'a "b"'}, {"id": None, "note": '{"size": 1.10}'}],
}


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("csv", 'id,note\n1,"a ""b"""\n,"{""size"": 1.10}"\n'),
        ("json", '[\n{"id": 1, "note": "a \\"b\\""},\n{"id": null, "note": {"size": 1.10}}\n]\n'),
        ("jsonl", '{"id": 1, "note": "a \\"b\\""}\n{"id": null, "note": {"size": 1.10}}\n'),
    ],
)
def test_result_is_exported_in_each_format(format: str, text: str) -> None:
    assert b"".join(chunks(ResultRows(RESULT, TYPES), format)).decode() == text


def test_half_a_surrogate_pair_in_a_result_is_escaped() -> None:
    rows = [{"id": 1, "note": "\ud83d"}, {"id": 2, "note": '{"c": "\\ud83d"}'}]
    result = ResultRows(RESULT | {"rows": rows}, TYPES)
    assert result.cell(0, 1) == "\\ud83d" and result.cell(1, 1) == '{"c": "\\ud83d"}'
    assert [row["note"] for row in json.loads(b"".join(chunks(result, "json")))] == [
        "\ud83d",
        {"c": "\ud83d"},
    ]
    assert b"".join(chunks(result, "csv")) == b'id,note\n1,\\ud83d\n2,"{""c"": ""\\ud83d""}"\n'


def test_empty_result_is_exported() -> None:
    result = ResultRows(RESULT | {"rows": []}, ColumnTypes())
    assert [b"".join(chunks(result, format)) for format in ("csv", "json", "jsonl")] == [
        b"id,note\n",
        b"[\n\n]\n",
        b"",
    ]


def test_columns_of_a_result_are_as_wide_as_their_values() -> None:
    assert [column.width for column in ResultRows(RESULT, TYPES).columns()] == [4, 14]
    rows = [*RESULT["rows"], *[{"id": 1, "note": ""}] * 9_000, {"id": 2**63 - 1, "note": "日本語" * 3}]
    result = ResultRows(RESULT | {"rows": rows}, TYPES)
    assert [column.width for column in result.columns()] == [19, 18]


@pytest.mark.slow
@pytest.mark.anyio
async def test_word_is_completed_by_tab_and_result_exported(
    people: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with tables(people) as ui:
        await ui.press("Q")
        field = ui.app.screen.query_one(SqlInput)
        await ui.until(lambda: "people" in field.names)
        await ui.press(*"select nam", "tab", *" from peo", "tab")
        assert field.text == "select name from people"
        await ui.press("ctrl+s")
        await ui.shows("3 rows")
        field.names, field.text = frozenset({"gäste liste"}), ""
        await ui.press(*"from gä", "tab", *" g", "tab")
        assert field.text == 'from "gäste liste" "gäste liste"'
        await ui.press("tab", "x", "enter")
        await ui.until(lambda: (tmp_path / "result.csv").exists())
        assert (tmp_path / "result.csv").read_text().splitlines()[0] == "name"


@pytest.mark.slow
@pytest.mark.anyio
async def test_query_shows_rows(people: Shop, snapshot: Snapshot) -> None:
    async with tables(people) as ui:
        await ui.press("Q")
        await ui.type("select name, age * 2 as twice\nfrom people order by id")
        await ui.press("ctrl+s")
        await ui.shows("3 rows", "82")
        snapshot(ui.app)
        await ui.press("tab", "l", "y")
        assert ui.app.clipboard == "82"
        await ui.press("escape")
        await ui.shows("people ▾")


@pytest.mark.slow
@pytest.mark.anyio
async def test_escape_stops_a_running_statement(people: Shop) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"
    async with tables(people) as ui:
        await ui.press("Q", "ctrl+t")
        await ui.type(f"delete from people where ({endless}) > 0")
        await ui.pilot.press("ctrl+s")  # `ui.press` waits for the end of a statement.
        await ui.until(lambda: "s · esc stops it" in ui.text)
        await ui.press("escape")
        await ui.shows("stopped")
        deleted = people.call("POST", "/sql", {"sql": "delete from people where id = 1", "write": True})
        assert deleted["changes"] == 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_sql_error_is_shown_and_selected_in_text(people: Shop) -> None:
    async with tables(people) as ui:
        await ui.press("Q")
        await ui.type("select name,\n  agee from people")
        await ui.press("f9")
        await ui.shows("no such column: agee")
        assert ui.app.screen.query_one(TextArea).selection.start == (1, 2)


@pytest.mark.slow
@pytest.mark.anyio
async def test_write_requires_write_mode_and_updates_grid(people: Shop) -> None:
    async with tables(people) as ui:
        ui.screen.action_sql("delete from people where id < 3")
        await ui.shows("read-only")
        await ui.press("ctrl+s")
        await ui.shows("writ")
        assert "rows changed" not in ui.text
        assert "--write" not in ui.text and "Press ctrl+t to permit writes." in ui.text
        await ui.press("ctrl+g")
        await ui.shows("Press ctrl+t to permit writes.")
        await ui.press("ctrl+t", "ctrl+s")
        await ui.shows("2 rows changed")
        await ui.press("escape")
        await ui.shows("Cleo", "1 row")


@pytest.mark.slow
@pytest.mark.anyio
async def test_truncated_result_is_reported(people: Shop) -> None:
    async with tables(people) as ui:
        ui.screen.action_sql(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) select i from n"
        )
        await ui.press("ctrl+s")
        await ui.shows("10,000 rows, truncated")


@pytest.mark.slow
@pytest.mark.anyio
async def test_wide_screen_lists_names_and_explains_the_statement(people: Shop) -> None:
    async with tables(people, size=(130, 30)) as ui:
        await ui.press("Q")
        await ui.shows("people", "age  integer")
        await ui.press(*"select ", "shift+tab", "j", "j", "enter", *" from people order by name", "ctrl+g")
        await ui.shows("SCAN people", "USE TEMP B-TREE FOR ORDER BY", "was not run")
        assert ui.app.screen.query_one(SqlInput).text == "select name from people order by name"
        await ui.press("ctrl+s")
        await ui.shows("3 rows")


def test_names_that_sql_would_misread_are_quoted() -> None:
    names = ["people", "order", "a b", 'say "x"']
    assert [quoted_name(name) for name in names] == ["people", '"order"', '"a b"', '"say ""x"""']
