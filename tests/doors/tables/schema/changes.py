"""A table and helpers for tests of schema changes."""

import pytest

from doors.tables.schema.change import Change, CreateTable, apply
from doors.tables.sqlite.catalog import Column, Table, read
from doors.tables.sqlite.errors import Connection, TablesError, rows

VISITS = CreateTable(
    "visits",
    (
        Column("id", "integer", primary_key=True),
        Column("name", "text", nullable=False, note="who came"),
        Column("at", "timestamp", nullable=False, default="now()"),
        Column("score", "real", default="0.5"),
        Column("paid", "boolean", default="false"),
        Column("extra", "json", default="'{}'"),
        Column("photo", "blob"),
    ),
    note="every visit",
)


def table(database: Connection, name: str = "visits") -> Table:
    return read(database)[name]


def refusal(database: Connection, *changes: Change) -> str:
    """Return message and hint of refused changes; assert that the schema is unchanged."""
    before = rows(database, "select type, name, sql from sqlite_schema order by name")
    with pytest.raises(TablesError) as exc_info:
        apply(database, changes)
    assert rows(database, "select type, name, sql from sqlite_schema order by name") == before
    return f"{exc_info.value.message}\n{exc_info.value.hint}"
