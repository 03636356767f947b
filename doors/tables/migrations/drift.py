"""Differences between a project's tables in development and the tables that its migrations make."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from doors.tables.files.dump_contents import contents_of
from doors.tables.migrations import (
    MIGRATIONS_FOLDER,
    RECORD,
    TABLE,
    Migration,
    applied,
    apply,
    find,
    next_name,
    pending,
    script,
)
from doors.tables.schema.rebuild import definition_of, rebuild
from doors.tables.schema.references import find_broken
from doors.tables.sqlite.catalog import Table, folded_tokens, read, reserved
from doors.tables.sqlite.create_table import ColumnText, Definition
from doors.tables.sqlite.errors import Connection, Error, TablesError, fold, quoted, rows, transaction
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from doors.tables.sqlite.tokens import statements

_ERROR_PREFIX = "cannot compare the tables with the migrations"
_OBJECTS = """
select iif(l.type = 'virtual', l.type, s.type) as kind, s.name, s.tbl_name, s.sql from sqlite_schema s
left join pragma_table_list l on l.schema = 'main' and l.name = s.name
where s.sql is not null and l.type is not 'shadow'
order by instr('table virtual view index trigger', kind), s.rowid
"""
"""All objects, in the order in which they can be created."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Objects that differ, such as `table users`. `sql` changes them in a migration without losing values.

    It is empty if that needs a decision, as for a dropped column.
    """

    names: tuple[str, ...]
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """The migrations that are now recorded as applied, and the objects that they contain or leave out."""

    files: tuple[str, ...]
    names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class _Object(NamedTuple):
    kind: str
    name: str
    table: str
    sql: str

    @property
    def text(self) -> str:
        return f"{self.kind.replace('virtual', 'table')} {self.name}"

    @property
    def drop(self) -> str:
        return f"DROP {self.kind.upper()} {quoted(self.name)}"


def unmigrated(project: Path, data: Path) -> tuple[str, ...]:
    """Return the names of objects that differ from what the migrations make; none without data.

    Raises `TablesError`, also if the migrations cannot be applied to empty tables.
    """
    if not database_path(data).exists():
        return ()
    migrations = find(project)
    with open_for_reading(data) as here:
        known = applied(here)
        names = _differing(here, migrations)
        if any(each.name not in known for each in migrations):  # Those make differences of their own.
            others = _differing(here, [each for each in migrations if each.name in known])
            names = tuple(name for name in names if name in others)
    return names


def _differing(here: Connection, migrations: Sequence[Migration]) -> tuple[str, ...]:
    with _migrated_tables(migrations) as migrated:
        return tuple(name for each in differences(migrated, here) for name in each.names)


def write(project: Path, data: Path, name: str) -> Written:
    """Write a migration with the differences, and record it as applied. Raises `TablesError`.

    Pending migrations are only recorded, if they make exactly the tables that are there.
    """
    migrations = find(project)
    with _migrated_tables(migrations) as migrated, open_for_writing(data, _ERROR_PREFIX) as here:
        new = pending(here, migrations)
        found = differences(migrated, here)
        if new and found:
            raise TablesError(
                f"{new[0].name} is not applied here, and the tables differ from what it makes",
                "Run `svc tables migrate` first. If that fails because the tables are changed already,"
                " correct the file so that it makes these changes.",
            )
        tried = [(each, _runs(migrated, each.sql)) for each in found]
        names = tuple(name for each, runs in tried if runs for name in each.names)
        left_out = tuple(name for each, runs in tried if not runs for name in each.names)
        path = None
        if names:
            last = max([*applied(here), *(each.name for each in migrations)], key=str.encode, default="")
            path = project / next_name(last, name)
            sql = "\n\n".join(each.sql for each, runs in tried if runs) + "\n"
            new = (Migration(f"{MIGRATIONS_FOLDER}/{path.name}", sql),)
        if new:
            _record(here, new, path)
    return Written(tuple(each.name for each in new), names, left_out)


def _record(here: Connection, new: Sequence[Migration], path: Path | None) -> None:
    """Record migrations as applied, and write the last one, which `svc dev` then finds recorded."""
    with transaction(here, _ERROR_PREFIX):
        here.execute(TABLE)
        for each in new:
            here.execute(f"INSERT INTO {RECORD} (name, sha256) VALUES (?, ?)", (each.name, each.sha256))
        if path is not None:
            try:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new[-1].sql, encoding="utf-8", newline="\n")
            except OSError as error:
                raise TablesError(
                    f"cannot write {new[-1].name}: {error.strerror}", "Check that the folder is writable."
                ) from error


@contextmanager
def _migrated_tables(migrations: Sequence[Migration]) -> Iterator[Connection]:
    """Open temporary tables that migrations create, in a transaction."""
    with (
        tempfile.TemporaryDirectory(prefix="svc-migrations-") as folder,
        open_for_writing(Path(folder), _ERROR_PREFIX) as migrated,
    ):
        apply(migrated, migrations)
        with transaction(migrated, _ERROR_PREFIX):
            yield migrated


def _runs(migrated: Connection, sql: str) -> bool:
    """Run statements of a migration; return False, and change nothing, if they fail or there are none."""
    try:
        with migrated:
            script.run(migrated, "", statements([sql], script.MAX_STATEMENT_BYTES))
            if broken := find_broken(migrated):
                raise TablesError(broken)
    except TablesError:
        return False
    return bool(sql)


def differences(migrated: Connection, here: Connection) -> tuple[Difference, ...]:
    """Return how the tables differ from those that migrations create. `migrated` is in a transaction."""
    old, new = _objects(migrated), _objects(here)
    refills = {part.name: part.refill for part in contents_of(here).virtual if part.refill}
    found = []
    for key, item in new.items():
        before = old.get(key)
        if before is None:
            refill = [refills[item.name]] if item.name in refills else []
            found.append(Difference((item.text,), _script([item.sql, *refill])))
        elif folded_tokens(before.sql) == folded_tokens(item.sql):
            continue
        elif item.kind == "table":
            found.append(_table_difference(migrated, here, before.name, item.name))
        else:
            of_view = (each for each in old.values() if each.kind == "trigger" and item.kind == "view")
            triggers = [each.sql for each in of_view if fold(each.table) == fold(item.name)]
            sql = "" if item.kind == "virtual" else _script([before.drop, item.sql, *triggers])
            found.append(Difference((f"{item.text} (changed)",), sql))
    dropped = [item for key, item in old.items() if key not in new]
    owners = {fold(item.name) for item in dropped if item.kind in ("table", "view")}
    for item in reversed(dropped):
        if item.kind in ("table", "virtual"):
            found.append(Difference((f"{item.text} (dropped)",)))
        elif item.kind == "view" or fold(item.table) not in owners:
            found.append(Difference((f"{item.text} (dropped)",), _script([item.drop])))
    return tuple(found)


def _objects(connection: Connection) -> dict[tuple[str, str], _Object]:
    items = (_Object(*row) for row in rows(connection, _OBJECTS))
    return {(item.kind, fold(item.name)): item for item in items if not reserved(item.name)}


def _script(sql: Sequence[str]) -> str:
    return "\n".join(f"{each};" for each in sql)


def _table_difference(migrated: Connection, here: Connection, old_name: str, name: str) -> Difference:
    """Return the difference of one table: its columns, or else the table itself."""
    table, current = read(migrated)[old_name], read(here)[name]
    old, new = definition_of(migrated, table), definition_of(here, current)
    before = {fold(column.name): column for column in old.columns}
    after = {fold(column.name): column for column in new.columns}
    added = tuple(f"column {name}.{each.name}" for key, each in after.items() if key not in before)
    changed = tuple(
        f"column {name}.{each.name} (changed)"
        for key, each in after.items()
        if key in before and folded_tokens(each.sql()) != folded_tokens(before[key].sql())
    )
    dropped = tuple(
        f"column {name}.{each.name} (dropped)" for key, each in before.items() if key not in after
    )
    names = (*added, *changed, *dropped) or (f"table {name} (changed)",)
    return Difference(names, "" if dropped else _altered(migrated, table, current, old, new))


def _altered(migrated: Connection, table: Table, current: Table, old: Definition, new: Definition) -> str:
    """Return the SQL that alters or rebuilds a table; "" if values would need a conversion."""
    types = {fold(column.name): column.type for column in current.columns}
    if any(types[fold(column.name)] != column.type for column in table.columns):
        return ""
    if "AUTOINCREMENT" in f"{old.sql('')}{new.sql('')}".upper():
        return ""
    count = len(old.columns)
    added = new.columns[count:]
    start = Definition(new.columns[:count], new.constraints, new.options)
    if folded_tokens(start.sql("")) == folded_tokens(old.sql("")) and all(map(_can_be_added, added)):
        return _script([f"ALTER TABLE {quoted(table.name)} ADD COLUMN {column.sql()}" for column in added])
    migrated.execute("savepoint rebuilt")
    try:
        return _script(rebuild(migrated, table, new, staging="svc_rows"))
    except Error:
        return ""
    finally:
        migrated.execute("rollback to rebuilt")
        migrated.execute("release rebuilt")


def _can_be_added(column: ColumnText) -> bool:
    """Return whether ALTER TABLE can add a column to a table with rows."""
    default = next((clause.sql.upper() for clause in column.clauses if clause.kind == "DEFAULT"), "")
    if "(" in default or "CURRENT_" in default or (column.has("NOT NULL") and not default):
        return False
    return not (column.has("PRIMARY") or column.has("UNIQUE") or column.has("GENERATED"))
