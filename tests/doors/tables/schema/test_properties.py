"""Random changes of a schema: rows survive, and refused changes have no effect."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from doors.tables.schema.change import (
    AddColumn,
    Change,
    CreateIndex,
    DropColumn,
    DropIndex,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SetDefault,
    SetNullable,
    SetPrimaryKey,
    SetUnique,
    apply,
)
from doors.tables.sqlite.catalog import Column, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, TablesError, rows
from doors.tables.types.registry import TYPES
from tests.support.examples import examples

START = """
create table t (mark text not null, a integer, b text, c boolean, d datetime);
insert into t (rowid, mark, a, b, c, d) values
  (3, 'x', 1, '1', 1, '2024-01-01 00:00:00'), (5, 'y', 2, 'b', 0, null), (9, 'z', null, null, null, 'soon');
create trigger tr after update of mark on t begin select raise(abort, 'rows are only moved'); end;
"""
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "F", "mark"])
OTHERS = NAMES.filter(lambda name: name != "mark")
TABLES = st.sampled_from(["t", "u"])
DEFAULTS = st.sampled_from([None, "1", "'x'", "now()", "true", "null"])
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(RenameTable, TABLES, TABLES),
    st.builds(
        AddColumn,
        TABLES,
        st.builds(
            Column,
            NAMES,
            st.sampled_from(sorted(TYPES)),
            nullable=st.booleans(),
            default=DEFAULTS,
            unique=st.booleans(),
        ),
    ),
    st.builds(RenameColumn, TABLES, OTHERS, NAMES),
    st.builds(RetypeColumn, TABLES, NAMES, st.sampled_from(sorted(TYPES))),
    st.builds(DropColumn, TABLES, OTHERS),
    st.builds(SetNullable, TABLES, NAMES, st.booleans()),
    st.builds(SetDefault, TABLES, NAMES, DEFAULTS),
    st.builds(SetUnique, TABLES, NAMES, st.booleans()),
    st.builds(SetPrimaryKey, TABLES, st.lists(NAMES, max_size=2).map(tuple)),
    st.builds(CreateIndex, TABLES, st.lists(NAMES, min_size=1, max_size=2).map(tuple), st.booleans()),
    st.builds(DropIndex, st.sampled_from(["t_a_index", "t_b_index", "u_a_index", "t_mark_index"])),
)


def state(database: Connection) -> Any:
    tables = dict(read(database))
    return tables, {name: rows(database, f"select * from {name}") for name in tables}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_random_schema_changes_preserve_rows(changes: list[Change]) -> None:
    with TemporaryDirectory() as folder:
        database = open_owner(Path(folder) / "x.db")
        try:
            database.execute("pragma synchronous = off")
            database.execute(START)
            for change in changes:
                before = state(database)
                try:
                    apply(database, [change])
                except TablesError:
                    assert state(database) == before
                tables, contents = state(database)
                ((name, table),) = tables.items()
                marks = sorted(row[0] for row in rows(database, f"select cast(mark as text) from {name}"))
                assert marks == ["x", "y", "z"]
                stored = [column.name for column in before[0].get(name, table).columns]
                if stored == [column.name for column in table.columns] and not isinstance(
                    change, RetypeColumn
                ):
                    assert sorted(map(repr, contents[name])) == sorted(
                        map(repr, next(iter(before[1].values())))
                    )
                assert rows(database, "pragma integrity_check") == [("ok",)]
        finally:
            database.close()
