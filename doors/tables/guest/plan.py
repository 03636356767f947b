"""Compilation of a statement into a cached plan: its parameters, columns and permissions.

`$1`, `$2` … are positions, as in PostgreSQL. SQLite treats them as names in the order of first appearance,
so values are reordered before they are bound. `?` and `?1` have the positions that SQLite gives them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

from doors.tables.guest.authorizer import GuestAuthorizer
from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.connections import MAX_SQL, NO_VALUES, Connection, Cursor, apsw
from doors.tables.types.json import Convert, Value, tagged_blob
from doors.tables.types.registry import TYPES

_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_BLANK = re.compile(r"(?:[\s;]++|--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z))*")

RowForm = Literal["objects", "arrays", "last"]
"""The JSON of a row. In `last`, the last of columns of one name is the member of the object."""
ARRAYS_HINT = ' Or read rows as arrays: "rows": "arrays".'
"""The part of a hint that applies to guests only."""
ROW_FORMS: tuple[RowForm, ...] = ("objects", "arrays", "last")
TypeOf = Callable[[str, str], str]
"""Returns the logical type of a column by table and column name; empty if it is unknown."""


class RowFormat(NamedTuple):
    """How rows are encoded: the names of objects (None for arrays), and the functions for columns by index.

    `members` is the JSON that follows the rows of a result, such as `,"blobs":["picture"]`.
    """

    names: tuple[str, ...] | None
    converters: tuple[tuple[int, Convert], ...]
    members: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled statement. `order` is empty if the parameters are bound in their given order.

    `types` are the logical types of the result columns, empty for computed ones. `objects` is the usual
    format of rows. `duplicate` is a name that two columns have. `max_value` is the maximum bytes of a value.
    """

    sql: str
    count: int
    _: KW_ONLY
    order: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    objects: RowFormat
    duplicate: str
    writes: bool
    heavy: bool
    max_value: int
    collects: bool
    reads_last_id: bool

    def bind(self, values: Sequence[Value]) -> Sequence[Value]:
        """Return the values in the order of SQLite's parameters. Raises `GuestProblem` for a wrong number."""
        if len(values) != self.count:
            raise GuestProblem(
                "bad-parameters",
                f"the statement has {_count_text(self.count, 'parameter')}, "
                f"but the request has {_count_text(len(values), 'value')}",
            )
        return [values[index] for index in self.order] if self.order else values

    def format(self, form: RowForm = "objects", *, stored: bool = False) -> RowFormat:
        """Return the format of rows, with the values as SQLite stores them if `stored` is true.

        Raises `GuestProblem` for objects with two columns of one name, and for too long names.
        """
        if form == "objects" and self.duplicate:
            raise GuestProblem(
                "sql-error",
                f"two columns of the result are named {self.duplicate}",
                f"Give one of them another name: {self.duplicate} AS other.{ARRAYS_HINT}",
            )
        if form != "arrays" and not stored:
            return self.objects
        if form == "arrays" and sum(map(len, self.names)) > MAX_SQL:
            raise GuestProblem("too-large", f"the names of the columns have more than {MAX_SQL} characters")
        members = b',"columns":%b' % _json(self.names) if form == "arrays" else b""
        converters = self.objects.converters
        if stored:
            converters = tuple((index, tagged_blob) for index in range(len(self.names)))
        else:
            members += _blobs_member([index for index, type in enumerate(self.types) if _is_blob(type)])
        return RowFormat(None if form == "arrays" else self.names, converters, members)


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
    # Not fullmatch, which would extend a comment over the text behind it.
    rest = _BLANK.match(sql, len(compiled["first"])).end()  # type: ignore[union-attr]
    if rest < len(sql):
        raise GuestProblem(
            "more-than-one-statement",
            "the SQL has more than one statement",
            "Send statements that belong together to /v1/batch; values go into params, never into the SQL.",
            position=rest + 1,
        )
    if not authorizer.action_count:  # SQLite calls the authorizer for all but VACUUM.
        raise GuestProblem(
            "not-allowed",
            "guests cannot use VACUUM",
            "SQLite reuses the space of deleted rows; svc tables export --all makes a copy.",
        )
    count, order = _parameters(compiled["names"], sql)
    names, duplicate = _shared(column[0] for column in compiled["columns"])
    types = tuple(type_of(table, origin) if origin else "" for *_, table, origin in compiled["columns"])
    to_json = ((index, TYPES[type].to_json) for index, type in enumerate(types) if type)
    converters = tuple((index, convert) for index, convert in to_json if convert is not None)
    blobs = [name for name, type in dict(zip(names, types, strict=True)).items() if _is_blob(type)]
    return Plan(
        sql=sql,
        count=count,
        order=order,
        names=names,
        types=types,
        objects=RowFormat(names, converters, _blobs_member(blobs)),
        duplicate=duplicate,
        writes=not compiled["readonly"],
        heavy=authorizer.heavy,
        max_value=authorizer.work.max_value(sql),
        collects=authorizer.work.collects,
        reads_last_id=authorizer.reads_last_id,
    )


def _parameters(names: Sequence[str | None], sql: str) -> tuple[int, tuple[int, ...]]:
    """Return the number of values of a statement, and the index of the value of each SQLite parameter.

    SQLite names neither `?` nor the numbers that `?5` skips, and gives both a position.
    """
    named = [(index, name) for index, name in enumerate(names, 1) if name is not None]
    for _, name in named:
        if not _NUMBER.fullmatch(name):
            raise GuestProblem(
                "bad-parameters",
                f"{_as_written(name, sql)} is not a parameter",
                "Write parameters as ?, or as $1, $2 and so on, and CAST($1 AS text) for $1::text.",
            )
    if len(named) < len(names):
        for index, name in named:
            if int(name) != index:
                raise GuestProblem(
                    "bad-parameters",
                    f"the statement mixes ? and {_as_written(name, sql)}",
                    "Write all parameters as ?, or all as $1, $2 and so on.",
                )
        return len(names), ()
    numbers = [int(name) for _, name in named]
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


def _as_written(name: str, sql: str) -> str:
    """Return a parameter as written in the SQL; SQLite omits the sign before its name."""
    return next((sign + name for sign in "$:@" if sign + name in sql), name)


def _shared(names: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """Return names with one object for equal names, and a name that occurs twice, or an empty one.

    A statement of 8 KiB can have 500 columns of one long name.
    """
    unique: dict[str, str] = {}
    shared = tuple(unique.setdefault(name, name) for name in names)
    if len(unique) == len(shared):
        return shared, ""
    return shared, next(name for name, count in Counter(shared).items() if count > 1)


def _is_blob(type: str) -> bool:
    return bool(type) and TYPES[type].form == "bytes"


def _blobs_member(columns: Sequence[str | int]) -> bytes:
    return b',"blobs":%b' % _json(columns) if columns else b""


def _json(document: Sequence[str | int]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _count_text(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def types_in(tables: Mapping[str, Any]) -> TypeOf:
    """Return the function that looks up column types in the result of `catalog.read`."""
    types = {
        (name, column.name): str(column.type) for name, table in tables.items() for column in table.columns
    }
    return lambda table, column: types.get((table, column), "")
