"""The syntax of columns and schema changes."""

import time
from typing import Any

import pytest

from doors.tables.api.routes import list_types
from svc_tui.client import SvcError
from svc_tui.tables_syntax import (
    ColumnTypes,
    TypeInfo,
    format_change,
    format_column,
    format_name,
    format_of,
    is_destructive,
    parse_changes,
    parse_columns,
)
from svc_tui.terminal.units import parse_moment
from tests.support.column_types import TYPES

PEOPLE = {
    "name": "people",
    "columns": [{"name": name, "type": type} for name, type in (("id", "integer"), ("first name", "text"))],
}
COLUMNS = [
    ("id integer primary key", {"name": "id", "type": "integer", "primary_key": True}),
    (
        '"first name" text not null unique',
        {"name": "first name", "type": "text", "nullable": False, "unique": True},
    ),
    ("joined timestamp default now()", {"name": "joined", "type": "timestamp", "default": "now()"}),
    ("born date default '2026-01-31'", {"name": "born", "type": "date", "default": "'2026-01-31'"}),
    ("size real default -1.5", {"name": "size", "type": "real", "default": "-1.5"}),
    ("raw blob default x'00ff'", {"name": "raw", "type": "blob", "default": "x'00ff'"}),
    (
        "mood text default 'it''s fine' note 'how, it felt'",
        {"name": "mood", "type": "text", "default": "'it''s fine'", "note": "how, it felt"},
    ),
]
CHANGES = [
    ("add x real", {"op": "add-column", "column": {"name": "x", "type": "real"}}),
    ("drop id", {"op": "drop-column", "column": "id"}),
    ('rename "first name" to name', {"op": "rename-column", "column": "first name", "name": "name"}),
    ("rename to humans", {"op": "rename-table", "name": "humans"}),
    ("alter id type text", {"op": "retype-column", "column": "id", "type": "text"}),
    ("alter id set not null", {"op": "set-nullable", "column": "id", "nullable": False}),
    ("alter id drop not null", {"op": "set-nullable", "column": "id", "nullable": True}),
    ("alter id set unique", {"op": "set-unique", "column": "id", "unique": True}),
    ("alter id drop unique", {"op": "set-unique", "column": "id", "unique": False}),
    ("alter id set default 7", {"op": "set-default", "column": "id", "default": "7"}),
    ("alter \"first name\" set default 'x'", {"op": "set-default", "column": "first name", "default": "'x'"}),
    ("alter id drop default", {"op": "set-default", "column": "id", "default": None}),
    ("alter id set note 'its number'", {"op": "set-note", "column": "id", "note": "its number"}),
    ("alter id drop note", {"op": "set-note", "column": "id", "note": ""}),
    ("set primary key id", {"op": "set-primary-key", "columns": ["id"]}),
    ("drop primary key", {"op": "set-primary-key", "columns": []}),
    ("set note 'all of us'", {"op": "set-note", "column": "", "note": "all of us"}),
    ("drop note", {"op": "set-note", "column": "", "note": ""}),
    ("create index on id", {"op": "create-index", "columns": ["id"], "unique": False}),
    ("create unique index on id", {"op": "create-index", "columns": ["id"], "unique": True}),
    ("drop index by_id", {"op": "drop-index", "name": "by_id"}),
    ("drop table people", {"op": "drop-table"}),
]


@pytest.mark.parametrize(("text", "column"), COLUMNS)
def test_column_round_trips_through_text(text: str, column: dict[str, Any]) -> None:
    assert parse_columns(text, TYPES) == [column]
    assert format_column(column) == text


@pytest.mark.parametrize("separator", [", ", ",", "\n", "\n\n"])
def test_commas_and_line_ends_separate_columns(separator: str) -> None:
    text = separator.join(text for text, _ in COLUMNS)
    assert parse_columns(text, TYPES) == [column for _, column in COLUMNS]


def test_keywords_and_types_are_case_insensitive() -> None:
    assert parse_columns("id INTEGER Primary KEY, ok boolean NOT null default YES", TYPES) == [
        {"name": "id", "type": "integer", "primary_key": True},
        {"name": "ok", "type": "boolean", "nullable": False, "default": "true"},
    ]


def test_default_of_a_text_type_needs_no_quotes() -> None:
    (column,) = parse_columns("city text default Brno", TYPES)
    assert column["default"] == "'Brno'"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "the columns are missing", "NAME TYPE [primary key]"),
        ("id integer\nname", "line 2: column name has no type", "NAME TYPE"),
        ("id:integer", "column id:integer has no type", "id integer"),
        ("name txt", "type txt does not exist", "Did you mean text?"),
        ("name text nedeed", "unknown rule: nedeed", "Available: primary key, not null"),
        ("name text key", "unknown rule: key", "Did you mean primary key?"),
        ("name text needed", "unknown rule: needed", "Did you mean not null?"),
        ("name text required", "unknown rule: required", "Did you mean not null?"),
        ("name text default", "unknown rule: default", "its value after a space"),
        ("name text default=x", "unknown rule: default=x", "its value after a space"),
        ("name text note two words", "unknown rule: words", "Available"),
        ("name text default 'x", "a quote is not closed", "twice"),
        ('name text default "x"', '"x" is not a value', "'x'"),
        ("'my name' text", "'my name' is not a name", '"my name"'),
    ],
)
def test_invalid_column_is_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(SvcError) as exc_info:
        parse_columns(text, TYPES)
    assert message in exc_info.value.message and hint in exc_info.value.hint
    assert exc_info.value.code == "usage"


@pytest.mark.parametrize(("text", "change"), CHANGES)
def test_change_round_trips_through_text(text: str, change: dict[str, Any]) -> None:
    (parsed,) = parse_changes(PEOPLE, text, TYPES)
    assert parsed == {"table": "people", **change}
    assert format_change(parsed) == text
    assert is_destructive(parsed) == (change["op"] in ("drop-column", "drop-table"))


def test_later_changes_see_earlier_ones_and_the_table_is_renamed_last() -> None:
    text = 'rename to us, drop id, rename "first name" to x, alter X set default 007'
    changes = parse_changes(PEOPLE, text, TYPES)
    assert [change["op"] for change in changes] == [
        "drop-column",
        "rename-column",
        "set-default",
        "rename-table",
    ]
    assert changes[2]["column"] == "x" and changes[2]["default"] == "'007'"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "the changes are missing", "add NAME TYPE"),
        ("drop table peple", "the table is named people", "drop table people"),
        ("drop ide", "column ide does not exist", "Available: id, first name"),
        ("drop id\nalter id set unique", "line 2: column id does not exist", ""),
        ("explode", "unknown change: explode", "Available: add, drop, rename"),
        ("retype id text", "unknown change", "Did you mean alter NAME type TYPE?"),
        ("type id text", "unknown change", "Did you mean alter NAME type TYPE?"),
        ("needed id", "unknown change", "Did you mean alter NAME set not null?"),
        ("not-null id", "unknown change", "Did you mean alter NAME set not null?"),
        ("optional id", "unknown change", "Did you mean alter NAME drop not null?"),
        ("no default id", "unknown change", "Did you mean alter NAME drop default?"),
        ("key id", "unknown change", "Did you mean set primary key NAME …?"),
        ("call it us", "unknown change", "Did you mean rename to NEW?"),
        ("index id", "unknown change", "Did you mean create index on NAME …?"),
        ("rename id", "unknown change", "rename NAME to NEW"),
    ],
)
def test_invalid_change_is_refused_with_a_hint(text: str, message: str, hint: str) -> None:
    with pytest.raises(SvcError) as exc_info:
        parse_changes(PEOPLE, text, TYPES)
    assert message in exc_info.value.message and hint in exc_info.value.hint


def test_quoted_names_survive() -> None:
    name = """all "our" x's"""
    table = {"name": name, "columns": [{"name": "note", "type": "text"}]}
    assert parse_changes(table, f"drop table {format_name(name)}", TYPES)[0]["op"] == "drop-table"
    (change,) = parse_changes(table, 'drop "note"', TYPES)
    assert change["op"] == "drop-column" and format_change(change) == 'drop "note"'


@pytest.mark.parametrize("text", ["23:59:59.999999", "2126-11-28T14:02", "2126-11-28T14:02+02:00"])
def test_moment_in_the_future_is_refused(text: str) -> None:
    with pytest.raises(SvcError, match="is in the future") as caught:
        parse_moment(text)
    assert "Times are in UTC: it is 2" in caught.value.hint


WRONG = [
    "14.57",
    "1457",
    "14",
    "",
    "14:5",
    "2026-11-28T14",
    "20261128T1402",
    "24:00",
    "yesterday",
    "9999999d",
    "Z",
    "14:02.5",
    "2026-13-01",
    "2026-11-28T",
]


@pytest.mark.parametrize("text", WRONG)
def test_other_forms_of_a_moment_are_refused_with_those_that_work(text: str) -> None:
    with pytest.raises(SvcError, match="is not a time") as caught:
        parse_moment(text)
    assert caught.value.hint == "Use 2026-11-28T14:02 or 14:02 of today (UTC), an age such as 10m, or now."


def test_moments_are_times_in_utc_or_ages() -> None:
    second = 10**9
    for text in ("2026-01-28T14:02", "2026-01-28 14:02:00Z", "2026-01-28T16:02:00.000+02:00"):
        assert parse_moment(text) == 1_769_608_920 * second
    assert parse_moment("2026-01-28T14:02:00.123456Z") == 1_769_608_920_123_456_000
    assert parse_moment("2026-01-28") == 1_769_558_400 * second
    assert parse_moment("00:00") % (86400 * second) == 0
    now = time.time_ns()
    assert now <= parse_moment("now") + 1000 <= now + 10 * second
    assert -1000 <= parse_moment("2h") - (now - 7200 * second) <= 10 * second


def test_types_come_from_the_api() -> None:
    assert [TYPES[type.name].name for type in list_types().types] == [
        type.name for type in list_types().types
    ]
    types = ColumnTypes([TypeInfo(name="even", form="int")])
    assert parse_columns("n EVEN", types) == [{"name": "n", "type": "even"}]


def test_format_is_determined_from_file_name() -> None:
    names = ["a.csv", "b.JSON", "c.d.jsonl", "e.ndjson", "f.sql", "g.db", "h.sqlite3"]
    assert [format_of(name) for name in names] == ["csv", "json", "jsonl", "jsonl", "sql", "db", "db"]
    with pytest.raises(SvcError, match="cannot determine the format"):
        format_of("people.xlsx")
