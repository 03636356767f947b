"""Messages for violated constraints, with the column at fault.

Source: https://sqlite.org/rescode.html#constraint
"""

from collections.abc import Mapping, Sequence

from doors.tables.guest.errors import constraint_kind
from doors.tables.rows.changes import Mistake
from doors.tables.sqlite.catalog import Table, read
from doors.tables.sqlite.errors import Connection, ConstraintError, Value, fold, quoted, rows
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.convert import preview

_REFERENCES = """
select id, "table", "from",
  coalesce("to", (select name from pragma_table_info("table") where pk = seq + 1), "from")
from pragma_foreign_key_list(?) order by id, seq
"""
"""The foreign keys of a table. Without columns, they refer to the primary key."""
COMMIT_VIOLATION = "after all changes, rows would refer to missing rows"


def constraint_message(
    connection: Connection,
    table: Table,
    error: ConstraintError,
    values: Mapping[str, Value],
    key_condition: str,
    key: Sequence[Value],
) -> Mistake:
    """Return the error of a change that wrote `values` to the row of `key_condition` and `key`."""
    kind = constraint_kind(error)
    detail = str(error).partition(": ")[2]
    columns = [each.name for each in table.columns if f"{table.name}.{each.name}" in detail.split(", ")]
    column = columns[0] if len(columns) == 1 else None
    match kind:
        case "unique" | "primary-key" if columns:
            values_text = ", ".join(
                f"{name} {preview(values[name])}" if name in values else name for name in columns
            )
            return Mistake(None, column, kind, f"another row already has {values_text}")
        case "not-null" if column:
            return Mistake(None, column, kind, f"{column} must have a value")
        case "check":
            return Mistake(None, _single_column(table, detail), kind, f"the row violates the check {detail}")
        case "foreign-key":
            return _reference_error(connection, table, values, key_condition, key)
        case "type":
            typed_columns = [
                each for each in table.columns if str(error).endswith(f" {table.name}.{each.name}")
            ]
            if typed_columns:
                return Mistake(
                    None,
                    typed_columns[0].name,
                    kind,
                    f"{typed_columns[0].name} can only hold {typed_columns[0].type}",
                )
        case "trigger":
            return Mistake(None, None, kind, f"a trigger of {table.name} refused it: {error}")
    return Mistake(None, column, kind, str(error))


def _single_column(table: Table, check: str) -> str | None:
    """Return the column that a check mentions, None unless it is exactly one."""
    names = {fold(token.value) for token in tokens(check)}
    columns = [each.name for each in table.columns if fold(each.name) in names]
    return columns[0] if len(columns) == 1 else None


def _reference_error(
    connection: Connection,
    table: Table,
    values: Mapping[str, Value],
    key_condition: str,
    key: Sequence[Value],
) -> Mistake:
    for parent, pairs in _references(connection, table.name):
        reference_values = [values.get(name) for name, _ in pairs]
        if any(value is None for value in reference_values) or _row_exists(
            connection, parent, [to for _, to in pairs], reference_values
        ):
            continue
        names = ", ".join(name for name, _ in pairs)
        values_text = ", ".join(preview(value) for value in reference_values)
        column = pairs[0][0] if len(pairs) == 1 else None
        return Mistake(
            None, column, "foreign-key", f"{names} {values_text} refers to a missing row of {parent}"
        )
    for child in read(connection).values():
        for parent, pairs in _references(connection, child.name):
            if fold(parent) != fold(table.name):
                continue
            joined = " AND ".join(f"c.{quoted(name)} = t.{quoted(to)}" for name, to in pairs)
            sql = (
                f"SELECT 1 FROM main.{quoted(child.name)} c JOIN"
                f" (SELECT * FROM main.{quoted(table.name)} WHERE {key_condition}) t ON {joined} LIMIT 1"
            )
            if key and rows(connection, sql, *key):
                return Mistake(None, None, "foreign-key", f"rows of {child.name} refer to this one")
    return Mistake(None, None, "foreign-key", "a row would refer to a missing row")


def _references(connection: Connection, table: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the tables that a table refers to, each with pairs of referring and referenced columns."""
    references: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for id, parent, name, to in rows(connection, _REFERENCES, table):
        references.setdefault(id, (parent, []))[1].append((name, to))
    return list(references.values())


def _row_exists(connection: Connection, table: str, columns: Sequence[str], values: Sequence[Value]) -> bool:
    condition = " AND ".join(f"{quoted(name)} = ?" for name in columns)
    return bool(rows(connection, f"SELECT 1 FROM main.{quoted(table)} WHERE {condition} LIMIT 1", *values))
