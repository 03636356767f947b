"""Compilation of a statement into a cached plan: its parameters, columns and permissions.

`$1`, `$2` … are positions, as in PostgreSQL. SQLite treats them as names in the order of first appearance,
so values are reordered before they are bound.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from doors.tables.guest.authorizer import GuestAuthorizer, unknown_action
from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.connections import NO_VALUES, Connection, Cursor, apsw
from doors.tables.types.json import Convert, Value
from doors.tables.types.registry import TYPES

_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_BLANK = re.compile(r"(?:[\s;]++|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")

TypeOf = Callable[[str, str], str]
"""Returns the logical type of a column by table and column name; empty if it is unknown."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled statement. `order` is empty if the parameters are bound in their given order.

    `types` are the logical types of the result columns, empty for computed ones. `blobs` is the JSON that
    follows the rows of a result: the names of the columns with base64 values.
    """

    sql: str
    count: int
    _: KW_ONLY
    order: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    converters: tuple[tuple[int, Convert], ...]
    blobs: bytes
    writes: bool
    heavy: bool

    def bind(self, values: Sequence[Value]) -> Sequence[Value]:
        """Return the values in the order of SQLite's parameters. Raises `GuestProblem` for a wrong number."""
        if len(values) != self.count:
            raise GuestProblem(
                "bad-parameters",
                f"the statement has {_count_text(self.count, 'parameter')}, "
                f"but the request has {_count_text(len(values), 'value')}",
            )
        return [values[index] for index in self.order] if self.order else values


def make_plan(connection: Connection, authorizer: GuestAuthorizer, sql: str, type_of: TypeOf) -> Plan:
    """Compile a statement without running it. Raises `Problem` and SQLite's errors."""
    authorizer.begin()
    if "\0" in sql:
        raise GuestProblem(
            "sql-error", "the SQL has a NUL character", "Use char(0).", position=sql.index("\0") + 1
        )
    compiled: dict[str, Any] = {}

    def inspect(cursor: Cursor, first: str, _bindings: object) -> bool:
        compiled.update(
            first=first,
            names=cursor.bindings_names,
            readonly=cursor.is_readonly,
            runs=cursor.has_vdbe,
            columns=cursor.description_full,
        )
        return False

    cursor = connection.cursor()
    cursor.exec_trace = inspect
    try:
        cursor.execute(sql, NO_VALUES, can_cache=False)
    except apsw.ExecTraceAbort:
        pass
    finally:
        cursor.close(True)
    if not compiled.get("runs"):
        raise GuestProblem("sql-error", "the SQL has no statement")
    rest = sql[len(compiled["first"]) :]
    if not _BLANK.fullmatch(rest):
        raise GuestProblem(
            "more-than-one-statement",
            "the SQL has more than one statement",
            "Send statements that belong together to /v1/batch; values go into params, never into the SQL.",
            position=len(compiled["first"]) + _BLANK.match(rest).end() + 1,  # type: ignore[union-attr]
        )
    if not authorizer.action_count:
        raise unknown_action()
    count, order = _parameters(compiled["names"], sql)
    return Plan(
        sql=sql,
        count=count,
        order=order,
        names=_require_distinct([column[0] for column in compiled["columns"]]),
        types=(types := _types(compiled["columns"], type_of)),
        converters=_converters(types),
        blobs=_blobs(compiled["columns"], types),
        writes=not compiled["readonly"],
        heavy=authorizer.heavy,
    )


def _parameters(names: Sequence[str | None], sql: str) -> tuple[int, tuple[int, ...]]:
    """Return the number of values of a statement, and the index of the value of each SQLite parameter."""
    for name in names:
        if name is None or not _NUMBER.fullmatch(name):
            raise GuestProblem(
                "bad-parameters",
                f"{_as_written(name, sql)} is not a parameter",
                "Write parameters as $1, $2 and so on, and CAST($1 AS text) for $1::text.",
            )
    numbers = [int(name) for name in names if name]
    count = max(numbers, default=0)
    unused = sorted(set(range(1, count + 1)) - set(numbers))
    if unused:
        raise GuestProblem(
            "bad-parameters",
            f"the statement has ${count} but not ${unused[0]}",
            "Number the parameters from $1 without gaps.",
        )
    order = tuple(number - 1 for number in numbers)
    return count, () if order == tuple(range(count)) else order


def _as_written(name: str | None, sql: str) -> str:
    """Return a parameter as written in the SQL; SQLite omits the sign before its name."""
    if name is None:
        return "?"
    return next((sign + name for sign in "$:@" if sign + name in sql), name)


def _require_distinct(names: Sequence[str]) -> tuple[str, ...]:
    unique: set[str] = set()
    for name in names:
        if name in unique:
            raise GuestProblem(
                "sql-error",
                f"two columns of the result are named {name}",
                f"Give one of them another name: {name} AS other.",
            )
        unique.add(name)
    return tuple(names)


def _types(columns: Sequence[Sequence[str]], type_of: TypeOf) -> tuple[str, ...]:
    return tuple(type_of(table, origin) if origin else "" for _, _, _, table, origin in columns)


def _converters(types: Sequence[str]) -> tuple[tuple[int, Convert], ...]:
    typed = ((index, TYPES[type].to_json) for index, type in enumerate(types) if type)
    return tuple((index, to_json) for index, to_json in typed if to_json is not None)


def _blobs(columns: Sequence[Sequence[str]], types: Sequence[str]) -> bytes:
    names = [
        column[0] for column, type in zip(columns, types, strict=True) if type and TYPES[type].form == "bytes"
    ]
    return b',"blobs":%b' % json.dumps(names, ensure_ascii=False).encode() if names else b""


def _count_text(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def types_in(tables: Mapping[str, Any]) -> TypeOf:
    """Return the function that looks up column types in the result of `catalog.read`."""
    types = {
        (name, column.name): str(column.type) for name, table in tables.items() for column in table.columns
    }
    return lambda table, column: types.get((table, column), "")
