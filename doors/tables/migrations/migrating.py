"""Brings the tables of a Project up to what the files in its folder say, before guests use them."""

from collections.abc import Callable
from pathlib import Path

from doors.tables.migrations import apply, edited, find
from doors.tables.sqlite.errors import TablesError
from doors.tables.sqlite.owner import open_for_writing

_WHAT = "the migrations were not applied"


def migrate(project: Path, data: Path, spare: Callable[[TablesError], None] | None = None) -> tuple[str, ...]:
    """Apply the migrations in a Project's folder that are not applied yet; return their names.

    `data` is the folder of the Project's data. Raises `TablesError`, and then nothing has changed. Those that
    were edited after they were applied are an error too; where there is `spare`, it hears of each, and the
    others are applied.
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
