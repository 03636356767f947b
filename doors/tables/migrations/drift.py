"""Differences between a project's tables in development and the tables that its migrations make."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from doors.tables import migrations as files
from doors.tables.files.copy_tables import contents_of
from doors.tables.migrations import MIGRATIONS_FOLDER, RECORD, Migration, script
from doors.tables.schema.references import definition_of, find_broken, rebuild
from doors.tables.sqlite.catalog import folded_tokens, read, reserved
from doors.tables.sqlite.errors import Connection, Error, TablesError, fold, quoted, rows, transaction
from doors.tables.sqlite.owner import database_path, open_for_reading, open_for_writing
from doors.tables.sqlite.tokens import ColumnText, statements
from engine.files.temporary import temporary_folder

_ERROR_PREFIX = "cannot compare the tables with the migrations"
_OBJECTS = """
select s.type, s.name, s.tbl_name, s.sql from sqlite_schema s
left join pragma_table_list l on l.schema = 'main' and l.name = s.name
where s.sql is not null and l.type is not 'shadow'
order by instr('table view index trigger', s.type), l.type is 'virtual', s.rowid
"""
"""All objects, in the order in which they can be created."""


class Difference(NamedTuple):
    """Objects that differ, such as `table users`. `sql` changes them in a migration without losing values.

    It is empty if that needs a decision, as for a dropped column.
    """

    names: tuple[str, ...]
    sql: str = ""


class Written(NamedTuple):
    """The migrations that are now recorded as applied, and the objects that they contain or leave out."""

    files: tuple[str, ...]
    names: tuple[str, ...]
    left_out: tuple[str, ...]


class _Object(NamedTuple):
    kind: str
    name: str
    table: str
    sql: str


def unmigrated(project: Path, data: Path) -> tuple[str, ...]:
    """Return the names of objects that differ from what the migrations make; none without data.

    Raises `TablesError`, also if the migrations cannot be applied to empty tables.
    """
    if not database_path(data).exists():
        return ()
    found = files.find(project)
    with open_for_reading(data) as here:
        known = [each for each in found if each.name in files.applied(here)]
        names = _differing(here, found)
        # Pending migrations make differences of their own.
        others = names if len(known) == len(found) else _differing(here, known)
        return tuple(name for name in names if name in others)


def _differing(here: Connection, migrations: Sequence[Migration]) -> tuple[str, ...]:
    with _migrated_tables(migrations) as migrated:
        return tuple(name for each in differences(migrated, here) for name in each.names)


def write(project: Path, data: Path, name: str) -> Written:
    """Write a migration with the differences, and record it as applied. Raises `TablesError`.

    Pending migrations are only recorded, if they make exactly the tables that are there.
    """
    found = files.find(project)
    with _migrated_tables(found) as migrated, open_for_writing(data, _ERROR_PREFIX) as here:
        new, path = files.pending(here, found), None
        changes = differences(migrated, here)
        if new and changes:
            raise TablesError(
                f"{new[0].name} is not applied here, and the tables differ from what it makes",
                "Run `svc tables migrate` first. If that fails because the tables are changed already,"
                " correct the file so that it makes these changes.",
            )
        written = [each for each in changes if each.sql and _runs(migrated, each.sql)]
        if written:
            names = [*files.applied(here), *(each.name for each in found)]
            path = project / files.next_name(max(names, key=str.encode, default=""), name)
            sql = "\n\n".join(each.sql for each in written) + "\n"
            new = (Migration(f"{MIGRATIONS_FOLDER}/{path.name}", sql),)
        if new:
            _record(here, new, path)
    left_out = tuple(name for each in changes if each not in written for name in each.names)
    return Written(
        tuple(each.name for each in new), tuple(name for each in written for name in each.names), left_out
    )


def _record(here: Connection, new: Sequence[Migration], path: Path | None) -> None:
    """Record migrations as applied, and write the last one, which `svc dev` then finds recorded."""
    with transaction(here, _ERROR_PREFIX):
        here.execute(files.TABLE)
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
    with temporary_folder("svc-migrations-") as folder, open_for_writing(folder, _ERROR_PREFIX) as migrated:
        files.apply(migrated, migrations)
        with transaction(migrated, _ERROR_PREFIX):
            yield migrated


def _runs(migrated: Connection, sql: str) -> bool:
    """Run statements of a migration; return False, and change nothing, if they fail."""
    try:
        with migrated:
            script.run(migrated, "", statements([sql], script.MAX_STATEMENT_BYTES))
            if broken := find_broken(migrated):
                raise TablesError(broken)
    except TablesError:
        return False
    return True


def differences(migrated: Connection, here: Connection) -> list[Difference]:
    """Return how the tables differ from those that migrations create. `migrated` is in a transaction."""
    old, new = _objects(migrated), _objects(here)
    refills = {part.name: part.refill for part in contents_of(here).virtual}
    found = []
    for key, item in new.items():
        before = old.get(key)
        if before is None:
            sql = _script(item.sql, refills.get(item.name, ""))
            found.append(Difference((f"{item.kind} {item.name}",), sql))
        elif folded_tokens(before.sql) == folded_tokens(item.sql):
            continue
        elif item.kind == "table":
            found.append(_table_difference(migrated, here, before, item))
        else:
            triggers = [
                each.sql for each in old.values() if each.kind == "trigger" and each.table == item.name
            ]
            sql = _script(_drop(before), item.sql, *(triggers if item.kind == "view" else ()))
            found.append(Difference((f"{item.kind} {item.name} (changed)",), sql))
    dropped = [item for key, item in old.items() if key not in new]
    owners = {item.name for item in dropped if item.kind in ("table", "view")}
    for item in reversed(dropped):
        if item.name in owners or item.table not in owners:
            sql = "" if item.kind == "table" else _script(_drop(item))
            found.append(Difference((f"{item.kind} {item.name} (dropped)",), sql))
    return found


def _objects(connection: Connection) -> dict[tuple[str, str], _Object]:
    items = (_Object(*row) for row in rows(connection, _OBJECTS))
    return {(item.kind, fold(item.name)): item for item in items if not reserved(item.name)}


def _script(*sql: str) -> str:
    return "\n".join(f"{each};" for each in sql if each)


def _drop(item: _Object) -> str:
    return f"DROP {item.kind.upper()} {quoted(item.name)}"


def _table_difference(migrated: Connection, here: Connection, before: _Object, item: _Object) -> Difference:
    """Return the difference of one table: its columns, or else the table itself."""
    if "VIRTUAL" in (before.sql[7:14].upper(), item.sql[7:14].upper()):
        return Difference((f"table {item.name} (changed)",))
    table, current = read(migrated)[before.name], read(here)[item.name]
    old, new = definition_of(migrated, table), definition_of(here, current)
    was = {fold(column.name): folded_tokens(column.sql()) for column in old.columns}
    names = {
        fold(column.name): f"column {item.name}.{column.name}" for column in (*old.columns, *new.columns)
    }
    now = {fold(column.name): folded_tokens(column.sql()) for column in new.columns}
    dropped = [f"{names[key]} (dropped)" for key in was if key not in now]
    changed = [f"{names[key]} (changed)" for key in now if key in was and now[key] != was[key]]
    added = [names[key] for key in now if key not in was]
    found = (*added, *changed, *dropped) or (f"table {item.name} (changed)",)
    types = {fold(column.name): column.type for column in current.columns}
    converted = any(types.get(fold(column.name)) != column.type for column in table.columns)
    if converted or "AUTOINCREMENT" in f"{before.sql} {item.sql}".upper():
        return Difference(found)
    last = new.columns[len(old.columns) :]
    start = type(new)(new.columns[: len(old.columns)], new.constraints, new.options)
    if folded_tokens(start.sql("")) == folded_tokens(old.sql("")) and all(map(_can_be_added, last)):
        alter = f"ALTER TABLE {quoted(table.name)} ADD COLUMN"
        return Difference(found, _script(*(f"{alter} {column.sql()}" for column in last)))
    migrated.execute("savepoint rebuilt")
    try:
        return Difference(found, _script(*rebuild(migrated, table, new, staging="svc_rows")))
    except Error:
        return Difference(found)
    finally:
        migrated.execute("rollback to rebuilt")


def _can_be_added(column: ColumnText) -> bool:
    """Return whether ALTER TABLE can add a column to a table with rows."""
    default = next((clause.sql.upper() for clause in column.clauses if clause.kind == "DEFAULT"), "")
    if "(" in default or "CURRENT_" in default or (column.has("NOT NULL") and not default):
        return False
    return not (column.has("PRIMARY") or column.has("UNIQUE") or column.has("GENERATED"))
