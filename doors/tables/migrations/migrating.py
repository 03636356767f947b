"""Brings the tables of a Project up to what the files in its folder say, before guests use them."""

from collections.abc import Callable
from pathlib import Path

from doors.tables.migrations import apply, edited, find
from doors.tables.sqlite.errors import TablesError
from doors.tables.sqlite.owner import open_for_writing

_WHAT = "the migrations were not applied"


def migrate(project: Path, data: Path, spare: Callable[[TablesError], None] | None = None) -> tuple[str, ...]:
    """Apply the pending migrations of a project's folder, all or none; return their names.

    `data` is the data folder of the project. Raises `TablesError`, also for migrations that were edited
    after they were applied; with `spare` these are passed to it and skipped.
    """
    migrations = find(project)
    if not migrations:
        return ()
    with open_for_writing(data, _WHAT) as connection:
        if spare is not None:
            wrong = edited(connection, migrations)
            for mistake in wrong.values():
                spare(mistake)
            migrations = tuple(each for each in migrations if each.name not in wrong)
        return apply(connection, migrations)
