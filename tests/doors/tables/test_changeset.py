"""Change sets compared with a reference model: a dictionary of rows."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doors.tables.rows.changeset import (
    Change,
    DeleteChange,
    DeleteRow,
    InsertRow,
    UpdateChange,
    UpdateRow,
    apply,
)
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, rows

TABLES = {
    "numbered": "create table t (k integer primary key not null, u text unique, v blob) strict",
    "without": "create table t (k integer primary key not null, u text unique, v blob) strict, without rowid",
    "named": "create table t (u text unique, k integer not null, v blob, primary key (k)) strict",
}
Row = dict[str, Any]
KEYS = st.integers(0, 4)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "k": KEYS,
    "u": st.sampled_from([None, "a", "b", "ü", ""]),
    "v": st.sampled_from([None, {"base64": "AA=="}, {"base64": ""}]),
}
SOME = st.fixed_dictionaries({}, optional=CELLS)
CHANGES = st.one_of(
    st.builds(lambda values, key: InsertRow(insert={**values, "k": key}), SOME, KEYS),
    st.builds(
        lambda key, expected, set: UpdateRow(update=UpdateChange(key={"k": key}, expected=expected, set=set)),
        KEYS,
        st.fixed_dictionaries({}, optional={"u": CELLS["u"], "v": CELLS["v"]}),
        SOME.filter(bool),
    ),
    st.builds(
        lambda key, expected: DeleteRow(delete=DeleteChange(key=[key], expected=expected)),
        KEYS,
        st.fixed_dictionaries({}, optional={"u": CELLS["u"]}),
    ),
)


class Model:
    """Reference model: rows by key, and the effect of change sets on them."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}

    def apply(self, changes: list[Change], *, skip: bool) -> tuple[int, list[tuple[int, str]], list[int]]:
        """Return the count of applied changes, the conflicts, and the indexes of invalid changes."""
        before, applied = deepcopy(self.rows), 0
        conflicts: list[tuple[int, str]] = []
        invalid: list[int] = []
        for index, change in enumerate(changes):
            if isinstance(change, InsertRow):
                result = self._put(None, {"u": None, "v": None, **change.insert})
            else:
                row_change = change.update if isinstance(change, UpdateRow) else change.delete
                key = row_change.key["k"] if isinstance(row_change.key, dict) else row_change.key[0]
                row = self.rows.get(key)
                if row is None or any(row[name] != value for name, value in row_change.expected.items()):
                    conflicts.append((index, "deleted" if row is None else "changed"))
                    continue
                if isinstance(row_change, UpdateChange):
                    result = self._put(key, {**row, **row_change.set})
                else:
                    result = bool(self.rows.pop(key))
            applied += result
            if not result:
                invalid.append(index)
        if invalid or (conflicts and not skip):
            self.rows, applied = before, 0
        return applied, conflicts, invalid

    def _put(self, old: int | None, row: Row) -> bool:
        others = [each for key, each in self.rows.items() if key != old]
        if any(each["k"] == row["k"] or (row["u"] is not None and each["u"] == row["u"]) for each in others):
            return False
        if old is not None:
            del self.rows[old]
        self.rows[row["k"]] = row
        return True


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute("pragma synchronous = off")
    connection.execute(TABLES[request.param])
    yield connection
    connection.close()


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sets=st.lists(st.tuples(st.lists(CHANGES, min_size=1, max_size=6), st.booleans()), max_size=5))
def test_change_set_matches_reference_model(table: Connection, sets: list[tuple[list[Change], bool]]) -> None:
    table.execute("delete from t")
    model = Model()
    for changes, skip in sets:
        applied, conflicts, invalid = model.apply(changes, skip=skip)
        result = apply(table, "t", changes, skip=skip)
        assert result.applied == applied
        assert [(each.index, each.reason) for each in result.conflicts] == conflicts
        assert [each.index for each in result.errors] == invalid
        assert stored(table) == model.rows
        for conflict in result.conflicts:
            assert conflict.current is None or conflict.current in model.rows.values()
        assert len(result.rows) == applied
        for each in result.rows:
            assert each.row == model.rows.get(each.key[0])
    assert not table.in_transaction


def stored(table: Connection) -> dict[int, Row]:
    table_rows = rows(table, "select k, u, v from t")
    blobs = {None: None, b"\0": {"base64": "AA=="}, b"": {"base64": ""}}
    return {key: {"k": key, "u": text, "v": blobs[blob]} for key, text, blob in table_rows}


def test_rollback_in_trigger_is_reported_with_its_change(tmp_path: Path) -> None:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute("create table t (k integer primary key, v text) strict")
    connection.execute(
        "create trigger no before insert on t when new.v = 'no' begin select raise(rollback, 'no!'); end"
    )
    result = apply(connection, "t", [InsertRow(insert={"v": v}) for v in ("yes", "no", "maybe")], skip=True)
    ((index, words),) = [(each.index, each.message) for each in result.errors]
    assert (index, result.applied, rows(connection, "select * from t")) == (1, 0, [])
    assert "no!" in words
    connection.close()


def test_deferred_foreign_key_is_satisfied_by_later_change(tmp_path: Path) -> None:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute(
        "create table t (k integer primary key, up integer references t (k) deferrable initially deferred)"
    )
    result = apply(
        connection, "t", [InsertRow(insert={"k": 1, "up": 2}), InsertRow(insert={"k": 2})], skip=False
    )
    assert (result.applied, result.errors) == (2, [])
    result = apply(connection, "t", [InsertRow(insert={"k": 3, "up": 9})], skip=False)
    ((index, constraint),) = [(each.index, each.constraint) for each in result.errors]
    assert (index, constraint, result.applied) == (None, "foreign-key", 0)
    assert len(rows(connection, "select * from t")) == 2
    connection.close()


def test_non_strict_table_stores_values_unconverted(tmp_path: Path) -> None:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute("create table t (k integer primary key, n integer, d datetime, b blob)")
    connection.execute("insert into t values (1, 'many', '2026-01-02 03:04:05', 'text')")
    observed = {"n": "many", "d": "2026-01-02T03:04:05.000Z", "b": "text"}
    change = UpdateChange(key={"k": "1"}, expected=observed, set={"n": "few", "d": "now()"})
    result = apply(connection, "t", [UpdateRow(update=change)], skip=False)
    assert result.applied == 1 and result.rows[0].row is not None
    assert (result.rows[0].row["n"], result.rows[0].row["b"]) == ("few", "text")
    assert len(result.rows[0].row["d"]) == 24
    connection.close()
