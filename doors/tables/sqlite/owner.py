"""The file of a Project's tables in an owner's hands, beside the Door that may have it open as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doors.tables.sqlite.connections import DATABASE_NAME, DISPLAY_PATH, Clock, open_owner, register_now
from doors.tables.sqlite.errors import Connection, Error, TablesError, open_file, wrap_error
from engine.files.data_dir import ensure_data_dir

DATA_FOLDER = "tables"
"""The Door's folder in a Project's data."""
_WHAT = "the tables can not be used"


def database_path(data: Path) -> Path:
    """Return where the tables of a Project are, by the folder of its data."""
    return data / DATA_FOLDER / DATABASE_NAME


@contextmanager
def open_for_writing(data: Path, what: str = _WHAT) -> Iterator[Connection]:
    """Give a connection that may do anything; the file is made where there is none.

    Raises `TablesError`; `what` could not be done then.
    """
    path = database_path(data)
    try:
        ensure_data_dir(data)
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise TablesError(
            f"{what}: {path.parent} can not be made: {error.strerror}",
            "Check that the folder can be written and that its disk has room.",
            public_message=f"{what}: the folder of the tables can not be made: {error.strerror}",
        ) from error
    with _open(path, what) as connection:
        yield connection


@contextmanager
def open_for_reading(data: Path) -> Iterator[Connection]:
    """Give a connection that only reads: of empty tables where there is no file. Raises `TablesError`."""
    path = database_path(data)
    if path.exists():
        with _open(path, _WHAT) as connection:
            connection.execute("pragma query_only = on")
            yield connection
        return
    empty = open_file(Path(":memory:"), make=True)
    try:
        register_now(empty, Clock())
        yield empty
    finally:
        empty.close()


@contextmanager
def _open(path: Path, what: str) -> Iterator[Connection]:
    try:
        connection = open_owner(path)
    except Error as error:
        raise wrap_error(error, what, DISPLAY_PATH) from error
    try:
        yield connection
    except Error as error:
        raise wrap_error(error, what, DISPLAY_PATH) from error
    finally:
        connection.close()
