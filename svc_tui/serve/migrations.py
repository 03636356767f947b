"""Migrations of a deploy, applied to the tables in a service's data directory."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from doors.tables.api.owner_threads import run_with_connection
from doors.tables.migrations import ERROR_PREFIX, MIGRATIONS_FOLDER, Migration, apply, find
from doors.tables.sqlite.owner import open_for_writing
from engine.errors import SvcError
from engine.files.temporary import temporary_folder


async def migrate(folder_of: Callable[[str], Path], project: str, files: Mapping[str, str]) -> None:
    """Apply a project's migrations by file name. `folder_of` returns the data folder of a project.

    Raises `SvcError`.
    """

    def read() -> tuple[Migration, ...]:
        with temporary_folder("svc-migrations-") as folder:
            tables = folder / MIGRATIONS_FOLDER
            tables.mkdir()
            for name, text in files.items():
                (tables / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            return find(folder)

    try:
        if migrations := await asyncio.to_thread(read):
            owned = folder_of(project)
            await run_with_connection(
                owned, open_for_writing(owned, ERROR_PREFIX), lambda connection: apply(connection, migrations)
            )
    except OSError as error:
        raise SvcError(
            f"cannot apply the migrations of {project}: {error.strerror}",
            "Check that the service's disk and the disk for temporary files have space.",
        ) from error
