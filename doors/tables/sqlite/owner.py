"""Unrestricted access of the control API to the tables database, also while the Door has it open."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from doors.tables.replication.entry import UNKNOWN, Origin
from doors.tables.replication.journal import FOLDER
from doors.tables.replication.registry import find_replica
from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.connections import (
    DATA_FOLDER,
    DATABASE_NAME,
    DISPLAY_PATH,
    QUOTA_HINT,
    Clock,
    close_owner,
    exceeds_quota,
    open_owner,
    recorder_of,
    register_now,
)
from doors.tables.sqlite.errors import Connection, Error, FullError, TablesError, open_file, rows, wrap_error
from engine.door import Session, Stored
from engine.errors import SvcError
from engine.files.data_dir import ensure_data_dir
from engine.files.database_files import database_size

_ERROR_PREFIX = "cannot use the tables"


def database_path(data: Path) -> Path:
    """Return the path of the database in a project's data folder."""
    return data / DATA_FOLDER / DATABASE_NAME


@contextmanager
def open_for_writing(
    data: Path, error_prefix: str = _ERROR_PREFIX, origin: Origin = UNKNOWN
) -> Iterator[Connection]:
    """Open or create the database for writing. Raises `TablesError` beginning with `error_prefix`."""
    path = database_path(data)
    try:
        ensure_data_dir(data)
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise TablesError(
            f"{error_prefix}: cannot create {path.parent}: {error.strerror}",
            "Check the permissions of the folder and the free space of its disk.",
            public_message=f"{error_prefix}: cannot create the folder of the tables: {error.strerror}",
        ) from error
    if (replica := find_replica(path)) is not None:
        replica.refresh()
    with _open(path, error_prefix) as connection:
        if (recorder := recorder_of(connection)) is not None:
            recorder.origin = origin
        yield connection


@contextmanager
def open_for_reading(data: Path, stale: Session | None = None) -> Iterator[Connection]:
    """Open the database read-only, or an empty one if it does not exist. Raises `TablesError`.

    A replica waits for what other nodes have written, so call this on a thread. For a stale read, it waits
    for the last write of the session only.
    """
    path = database_path(data)
    if (replica := find_replica(path)) is not None:
        replica.refresh(stale)
    if path.exists():
        with _open(path, _ERROR_PREFIX) as connection:
            connection.execute("pragma query_only = on")
            yield connection
        return
    empty = open_file(Path(":memory:"), create=True)
    try:
        register_now(empty, Clock())
        yield empty
    finally:
        empty.close()


@contextmanager
def _open(path: Path, error_prefix: str) -> Iterator[Connection]:
    try:
        connection = open_owner(path)
    except Error as error:
        raise wrap_error(error, error_prefix, DISPLAY_PATH) from error
    try:
        yield connection
    except (Error, TablesError) as error:
        is_full = isinstance(error, FullError) or isinstance(error.__cause__, FullError)
        if is_full and (reason := exceeds_quota(path)):
            message = f"{error_prefix}: {reason}; nothing was changed"
            raise TablesError(message, QUOTA_HINT, code="storage-quota") from error
        if isinstance(error, TablesError):
            raise
        raise wrap_error(error, error_prefix, DISPLAY_PATH) from error
    finally:
        close_owner(connection)


def measure(data: Path, counts: Mapping[str, str]) -> dict[str, Stored]:
    """Measure the tables, and what other Doors store in tables of theirs, as this node has them.

    `counts` has the table of each Door whose row begins with a key, a number and, if it stores bytes, those.
    """
    path = database_path(data)
    try:
        with open_for_reading(data, Session()) as connection:
            names = rows(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
            log = sum(each.stat().st_size for each in path.parent.glob(f"{FOLDER}/*/*"))
            stored = {
                "tables": Stored(sum(not reserved(name) for (name,) in names), database_size(path), log)
            }
            for door, table in counts.items():
                query = f"SELECT * FROM {table}" if (table,) in names else "SELECT 1, 0"
                stored[door] = Stored(*rows(connection, query)[0][1:])
            return stored
    except (OSError, SvcError):
        return {}
