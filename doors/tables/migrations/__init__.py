"""Migrations: the files `tables/*.sql` of a project, each applied once, in the order of their names.

The database records the name and sha256 of each applied file, so a copy of it has the record, too.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from doors.tables.migrations import script
from doors.tables.replication.entry import Origin
from doors.tables.schema import notes
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar, transaction
from doors.tables.sqlite.owner import open_for_writing
from doors.tables.sqlite.tokens import statements
from doors.tables.types.registry import TIMESTAMP

MIGRATIONS_FOLDER = "tables"
RECORD = "_svc_migrations"
TABLE = f"""CREATE TABLE IF NOT EXISTS {RECORD} (
  name TEXT NOT NULL PRIMARY KEY,
  sha256 TEXT NOT NULL,
  applied TEXT NOT NULL DEFAULT ({TIMESTAMP.now_sql})
) STRICT, WITHOUT ROWID"""
MAX_FILE_BYTES = 64 << 20
MAX_SECONDS = 900.0
"""Time limit of all migrations that are applied at once, during which other writers wait."""
ERROR_PREFIX = "the migrations were not applied"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its name within the project (`tables/0001-users.sql`) and its text."""

    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """The digest of the text with normalized line ends, which version control may change."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def find(project: Path) -> tuple[Migration, ...]:
    """Read the migrations in a project's folder, in the order of their names. Raises `TablesError`.

    Empty files are left out: an editor creates them before it writes them.
    """
    folder = project / MIGRATIONS_FOLDER
    try:
        paths = list(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        message = f"{MIGRATIONS_FOLDER} cannot be read as a folder: {error.strerror}"
        hint = f"Rename it, or make it a readable folder: migrations are files {MIGRATIONS_FOLDER}/*.sql."
        raise TablesError(message, hint) from error
    paths = [path for path in paths if path.name.endswith(".sql") and not path.name.startswith(".")]
    found = map(_read, sorted(paths, key=os.fsencode))
    return tuple(each for each in found if each.sql.strip())


def ignored(project: Path) -> Iterator[TablesError]:
    """Yield a warning for each file that looks like a migration and is not one."""
    folder = project / MIGRATIONS_FOLDER
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() == ".sql" and (path.parent != folder or path.suffix != ".sql"):
            name = str(path.relative_to(project)).encode(errors="replace").decode()
            yield TablesError(
                f"{name} is not applied", f"Migrations are files {MIGRATIONS_FOLDER}/*.sql; rename it."
            )


def _read(path: Path) -> Migration:
    name = f"{MIGRATIONS_FOLDER}/{path.name}".encode(errors="replace").decode()
    try:
        if path.exists() and not path.is_file():
            raise TablesError(f"{name} is not a file", "Rename it so that it does not end in .sql.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise TablesError(
                f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB", "Use `svc tables import` for many rows."
            )
        return Migration(name, path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise TablesError(f"{name} cannot be read: {error.strerror}", "Check that it is a file.") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TablesError(f"{name}:{line}: the file is not UTF-8", "Save it in UTF-8.") from None


def next_name(last: str, name: str) -> str:
    """Return the name of a migration after the last one. Raises `TablesError` if it would not sort there."""
    number = re.match(r"\d+", last.removeprefix(f"{MIGRATIONS_FOLDER}/"))
    digits = f"{int(number[0]) + 1:0{len(number[0])}}" if number else "0001"
    path = f"{MIGRATIONS_FOLDER}/{digits}-{name}.sql"
    if path.encode() <= last.encode():
        raise TablesError(
            f"{path} would not be the last migration: {last} exists",
            f"Add a file to {MIGRATIONS_FOLDER}/ whose name sorts after {last}.",
            code="conflict",
        )
    return path


def applied(connection: Connection) -> dict[str, str]:
    """Return the sha256 of each applied migration, by name."""
    if not scalar(connection, "SELECT 1 FROM sqlite_schema WHERE name = ?", RECORD):
        return {}
    return dict(rows(connection, f"SELECT name, sha256 FROM {RECORD} ORDER BY name"))


def pending(connection: Connection, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the pending migrations. Raises `TablesError` for those that cannot be applied.

    A missing file is not an error: after a rollback, the older deployment lacks it.
    """
    for error in edited(connection, migrations).values():
        raise error
    digests = applied(connection)
    last = max(digests, key=str.encode, default="")
    result = tuple(each for each in migrations if each.name not in digests)
    for migration in result:
        if migration.name.encode() < last.encode():
            raise TablesError(
                f"{migration.name} sorts before {last}, which is already applied",
                f"Rename it so that it sorts after {last}.",
            )
    return result


def edited(connection: Connection, migrations: Sequence[Migration]) -> dict[str, TablesError]:
    """Return the error for each migration that was edited after it was applied, by name."""
    digests = applied(connection)
    last = max(digests, key=str.encode, default="")
    hint = (
        f"Undo the edit, and put the change into a new file that comes after {last};"
        " if the rows do not matter, drop the project's tables and migrate again."
    )
    return {
        each.name: TablesError(f"{each.name} was edited after it was applied", hint)
        for each in migrations
        if digests.get(each.name, each.sha256) != each.sha256
    }


def apply(connection: Connection, migrations: Sequence[Migration]) -> tuple[str, ...]:
    """Apply the pending migrations and return their names.

    Applies all or none; raises `TablesError`. The connection is unrestricted and not in a transaction. If
    another process applies the same migrations, this waits for it and applies none twice.
    """
    if not pending(connection, migrations):
        return ()
    deadline = time.monotonic() + MAX_SECONDS
    with transaction(connection, ERROR_PREFIX):
        todo = pending(connection, migrations)
        connection.execute(TABLE)
        insert = f"INSERT INTO {RECORD} (name, sha256) VALUES (?, ?)"
        hint = "Drop or recreate that view, trigger or index in the migration."
        for migration in todo:
            with unbroken(connection, f"{migration.name} leaves something broken", hint):
                parsed = statements([migration.sql], script.MAX_STATEMENT_BYTES)
                script.run(connection, migration.name, parsed, deadline=deadline)
            connection.execute(insert, (migration.name, migration.sha256))
        notes.delete_orphans(connection)
    return tuple(migration.name for migration in todo)


def migrate(project: Path, data: Path, warn: Callable[[TablesError], None] | None = None) -> tuple[str, ...]:
    """Apply the pending migrations of a project's folder, all or none; return their names.

    `data` is the data folder of the project. Raises `TablesError`, also for migrations that were edited
    after they were applied; with `warn` these are passed to it and skipped.
    """
    if warn is not None:
        for warning in ignored(project):
            warn(warning)
    migrations = find(project)
    if not migrations:
        return ()
    with open_for_writing(data, ERROR_PREFIX, Origin("migration")) as connection:
        if warn is not None:
            errors = edited(connection, migrations)
            for error in errors.values():
                warn(error)
            migrations = tuple(each for each in migrations if each.name not in errors)
        return apply(connection, migrations)
