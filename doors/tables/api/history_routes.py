"""The routes of the history of rows: what wrote them, and the revert of an entry."""

from typing import Literal

from pydantic import Field

from doors.tables.api.file_routes import require_data_dir
from doors.tables.api.grid_routes import read_key
from doors.tables.api.query import run_with_connection
from doors.tables.replication.entry import Origin
from doors.tables.replication.history import MAX_WRITES, History, Reverted, find_writes, revert
from doors.tables.sqlite.owner import open_for_reading, open_for_writing
from engine.control.app import Routes, principal
from engine.control.projects import Projects
from engine.control.schemas import QueryModel, StrictModel


class HistoryQuery(QueryModel):
    """A row: its table and key as JSON text (`[12]`), and one column of it or all. Or a request by its id."""

    table: str = ""
    key: str = "[]"
    column: str = ""
    request: str = ""
    limit: int = Field(default=100, ge=1, le=MAX_WRITES)


class RevertQuery(StrictModel):
    """An entry of the history. With `plan` nothing is changed.

    Rows that have changed since are conflicts: nothing is changed or, with `skip`, other rows are.
    """

    entry: str
    plan: bool = False
    conflicts: Literal["refuse", "skip"] = "refuse"


def add_history_routes(routes: Routes, projects: Projects) -> None:
    """Add the routes."""

    @routes.get("/v1/projects/<project>/tables/history")
    async def history(project: str, query_args: HistoryQuery) -> History:
        """Return what wrote a row, or what a request wrote, newest first; needs the role viewer."""
        folder, key = require_data_dir(projects, project, "viewer"), read_key(query_args.key)
        return await run_with_connection(
            folder,
            open_for_reading(folder),
            lambda connection: find_writes(
                connection,
                table=query_args.table,
                key=key,
                column=query_args.column,
                request=query_args.request,
                limit=query_args.limit,
            ),
        )

    @routes.post("/v1/projects/<project>/tables/revert")
    async def revert_entry(project: str, data: RevertQuery) -> Reverted:
        """Undo an entry of the history in one transaction; needs the role deployer, to plan viewer."""
        folder = require_data_dir(projects, project, "viewer" if data.plan else "deployer")
        opened = open_for_writing(folder, origin=Origin("revert", user=principal().name))
        return await run_with_connection(
            folder,
            opened,
            lambda connection: revert(connection, data.entry, plan=data.plan, skip=data.conflicts == "skip"),
        )
