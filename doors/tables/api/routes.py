"""The routes of a project's tables, and their roles.

A viewer reads tables, rows and exports. A deployer writes and imports rows, and applies migrations. An owner
changes the schema directly. All routes use the same database file as the Door.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field
from quart import Blueprint, Response
from quart_schema import (
    document_request,
    document_response,
    validate_querystring,
    validate_request,
    validate_response,
)

from doors.tables import migrations
from doors.tables.api import file_routes, grid_routes, row_routes
from doors.tables.api.file_routes import require_data_dir
from doors.tables.api.owner_threads import run_with_connection
from doors.tables.api.query import MAX_ROWS, Result, changes_schema
from doors.tables.api.query import run as run_sql
from doors.tables.api.response_models import (
    MigrationList,
    TableList,
    TableModel,
    TypeList,
    list_migrations,
    list_tables,
    list_types,
    show_table,
)
from doors.tables.api.row_routes import read_large
from doors.tables.api.schema_models import Changes
from doors.tables.migrations import Migration
from doors.tables.schema.apply import apply
from doors.tables.sqlite.catalog import find, read
from doors.tables.sqlite.errors import Connection, TablesError
from doors.tables.sqlite.owner import open_for_reading, open_for_writing
from engine.control.app import access
from engine.control.errors import NotFound
from engine.control.projects import Projects
from engine.control.schema import QueryModel, StrictModel

MAX_MIGRATION_BYTES = 16 << 20
"""Maximum bytes of all migrations in a request."""
_ROWS_HINT = "Rows are for `svc tables import`."
_T = TypeVar("_T")


class TableQuery(QueryModel):
    """The table to show."""

    name: str


class SqlQuery(StrictModel):
    """One statement, with parameters in the Door's format. With `write` it may change rows.

    With `cells`, the rows of the result have cells as in a grid: a document of a json column is its text.
    A statement that changes the schema needs `write`, the role owner, and no parameters.
    """

    sql: str
    params: list[Any] = Field([])
    write: bool = False
    limit: int = Field(default=MAX_ROWS, ge=0, le=MAX_ROWS)
    cells: bool = False


class MigrationFile(StrictModel):
    """One migration: `tables/0001-users.sql`, and its text."""

    name: str
    sql: str


class Migrations(StrictModel):
    """All migrations of a project. With `plan` none is applied."""

    files: list[MigrationFile] = Field(max_length=10_000)
    plan: bool = False


class MigrationsDone(StrictModel):
    """The names of the newly applied migrations or, with `plan`, of the pending ones."""

    applied: list[str]


def blueprint(projects: Projects) -> Blueprint:
    """Return the routes."""
    routes = Blueprint("tables", __name__)

    @routes.get("/v1/projects/<project>/tables")
    @validate_response(TableList)
    async def tables(project: str) -> TableList:
        """List the tables and views; needs the role viewer."""
        return await _read(require_data_dir(projects, project, "viewer"), list_tables)

    @routes.get("/v1/projects/<project>/tables/types")
    @validate_response(TypeList)
    async def types(project: str) -> TypeList:
        """List the column types; needs the role viewer."""
        require_data_dir(projects, project, "viewer")
        return list_types()

    @routes.get("/v1/projects/<project>/table")
    @validate_querystring(TableQuery)
    @validate_response(TableModel)
    async def table(project: str, query_args: TableQuery) -> TableModel:
        """Show one table; needs the role viewer."""
        data = require_data_dir(projects, project, "viewer")
        return await _read(data, lambda connection: _show(connection, query_args.name))

    @routes.post("/v1/projects/<project>/schema")
    @validate_request(Changes)
    @validate_response(TableList)
    async def schema(project: str, data: Changes) -> TableList:
        """Change the schema in one transaction and return all tables; needs the role owner."""
        folder = require_data_dir(projects, project, "owner")
        return await _write(folder, lambda connection: _change(connection, data))

    @routes.post("/v1/projects/<project>/sql")
    @validate_request(SqlQuery)
    @document_response(Result)
    async def query(project: str, data: SqlQuery) -> Response:
        """Run one statement; to read needs the role viewer, to write rows deployer, the schema owner."""
        schema = data.write and changes_schema(data.sql)
        folder = require_data_dir(
            projects, project, "owner" if schema else "deployer" if data.write else "viewer"
        )

        def run(connection: Connection) -> bytes:
            limit, cells = data.limit, data.cells
            return run_sql(connection, data.sql, data.params, write=data.write, limit=limit, cells=cells)

        result = await access().run((_write if data.write else _read)(folder, run))
        return Response(result, content_type="application/json")

    @routes.get("/v1/projects/<project>/migrations")
    @validate_response(MigrationList)
    async def applied(project: str) -> MigrationList:
        """List the applied migrations; needs the role viewer."""
        return await _read(require_data_dir(projects, project, "viewer"), list_migrations)

    @routes.post("/v1/projects/<project>/migrations")
    @document_request(Migrations)
    @validate_response(MigrationsDone)
    async def migrate(project: str) -> MigrationsDone:
        """Apply pending migrations in one transaction; needs the role deployer, to plan viewer."""
        require_data_dir(projects, project, "viewer")
        body = await read_large(Migrations, MAX_MIGRATION_BYTES, "the migrations", _ROWS_HINT)
        folder = require_data_dir(projects, project, "viewer" if body.plan else "deployer")
        files = [Migration(each.name, each.sql) for each in body.files]
        if body.plan:
            pending = await _read(folder, lambda connection: migrations.pending(connection, files))
            return MigrationsDone(applied=[each.name for each in pending])
        names = await _write(folder, lambda connection: migrations.apply(connection, files))
        return MigrationsDone(applied=list(names))

    transfers = file_routes.Transfers()
    file_routes.add_routes(routes, projects, transfers)
    grid_routes.add_routes(routes, projects, transfers)
    row_routes.add_routes(routes, projects)
    return routes


async def _read(data: Path, work: Callable[[Connection], _T]) -> _T:
    return await run_with_connection(data, open_for_reading(data), work)


async def _write(data: Path, work: Callable[[Connection], _T]) -> _T:
    return await run_with_connection(data, open_for_writing(data), work)


def _show(connection: Connection, name: str) -> TableModel:
    try:
        return show_table(connection, find(read(connection), name).name)
    except TablesError as error:
        raise NotFound(error.message, error.hint) from error


def _change(connection: Connection, changes: Changes) -> TableList:
    apply(connection, changes.values())
    return list_tables(connection)
