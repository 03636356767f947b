"""Table count and file size of a project. Cheap, and without errors."""

from pathlib import Path

from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.errors import rows
from doors.tables.sqlite.owner import database_path, open_for_reading
from engine.errors import SvcError

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


def size(data: Path) -> tuple[int, int] | None:
    """Return the number of tables and the bytes of their file, by the folder of a Project's data.

    `None` where the file cannot be read.
    """
    path = database_path(data)
    try:
        if not path.exists():
            return 0, 0
        with open_for_reading(data) as connection:
            return sum(not reserved(name) for (name,) in rows(connection, _TABLES)), path.stat().st_size
    except (OSError, SvcError):
        return None
