"""The routes of a project's tables, and their roles.

A viewer reads tables, rows and exports. A deployer writes and imports rows, and applies migrations. An owner
changes the schema directly. All routes use the same database file as the Door.

Failed changes of rows are part of the response, not HTTP errors: `conflicts` are rows that others have
changed or deleted, `errors` are changes that violate a constraint. With errors nothing is changed; with
conflicts nothing either, unless the request skips them.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Discriminator, FailFast, Field, Tag, ValidationError
from quart import Response, request
from quart_schema import RequestSchemaValidationError, document_request, document_response

from doors.tables import migrations
from doors.tables.api import file_routes, grid_routes
from doors.tables.api.file_routes import require_data_dir
from doors.tables.api.query import MAX_ROWS, Result, changes_schema, run_with_connection
from doors.tables.api.query import run as run_sql
from doors.tables.migrations import RECORD, Migration, applied
from doors.tables.replication import history as past
from doors.tables.replication.entry import Origin
from doors.tables.rows import changeset
from doors.tables.rows.changeset import DeleteRow, InsertRow, Outcome, UpdateRow
from doors.tables.schema import change
from doors.tables.schema.change import KnownType
from doors.tables.sqlite import catalog
from doors.tables.sqlite.catalog import Table, find, read
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection, Error, quoted, rows, scalar
from doors.tables.sqlite.owner import open_for_reading, open_for_writing
from doors.tables.types.json import encode
from doors.tables.types.parse import FALSE_WORDS, TRUE_WORDS
from doors.tables.types.registry import TYPES, Form, TypeName
from engine.control.app import Routes, access, principal
from engine.control.projects import Projects
from engine.control.schemas import QueryModel, StrictModel
from engine.control.streaming_body import parse_json
from engine.errors import SvcError

MAX_CHANGES = 10_000
MAX_BYTES = 32 << 20
MAX_VALUES = 1_000_000
"""Maximum changes, bytes and values of a request."""
_Form = TypeVar("_Form", bound=BaseModel)


def _kind(change: Any) -> str:
    names = ("insert", "update", "delete")
    return next((name for name in names if isinstance(change, dict) and name in change), "")


AnyRowChange = Annotated[
    Annotated[InsertRow, Tag("insert")]
    | Annotated[UpdateRow, Tag("update")]
    | Annotated[DeleteRow, Tag("delete")],
    Discriminator(
        _kind, custom_error_type="change", custom_error_message="it is not insert, update or delete"
    ),
]


class RowChanges(StrictModel):
    """Changes of a table's rows, applied in order. A cell is as in a grid, or its text.

    A timestamp may be ISO 8601 with any offset, or `now()`; json is its text; a blob is `{"base64": "…"}`.
    """

    table: str
    changes: Annotated[list[AnyRowChange], FailFast()] = Field(min_length=1, max_length=MAX_CHANGES)
    conflicts: Literal["refuse", "skip"] = "refuse"


def add_row_routes(routes: Routes, projects: Projects) -> None:

    @routes.post("/v1/projects/<project>/rows")
    @document_request(RowChanges)
    @document_response(Outcome)
    async def change_rows(project: str) -> Response:
        """Insert, update and delete rows in one transaction; needs the role deployer."""
        folder = require_data_dir(projects, project, "deployer")
        body = await read_large(RowChanges, MAX_BYTES, "the changes", "Import many rows as a file.")

        def work(connection: Connection) -> bytes:
            skip = body.conflicts == "skip"
            return encode(asdict(changeset.apply(connection, body.table, body.changes, skip=skip)))

        result = await _write(folder, work, "edit")
        return Response(result, content_type="application/json")


async def read_large(form: type[_Form], max_bytes: int, subject: str, hint: str) -> _Form:
    """Return the JSON body of the request, parsed on a thread. Raises `SvcError` if it is too large."""
    text = bytearray()
    async for piece in request.body:
        text += piece
        if len(text) > max_bytes:
            raise SvcError(f"{subject} have more than {max_bytes >> 20} MiB", hint, code="body-too-large")
    document = await parse_json((request.view_args or {})["project"], text, MAX_VALUES)
    try:
        return await asyncio.to_thread(form.model_validate, document)
    except ValidationError as error:
        raise RequestSchemaValidationError(error) from error


COUNT_SECONDS = 2.0
"""Maximum time of counting rows. After it the number is unknown."""
_STEPS_PER_CHECK = 10_000


@dataclass(frozen=True, slots=True)
class TypeView:
    """One column type, for clients that parse and show its values.

    `form` is how values are stored and shown. Text of the form `format` matches `pattern`, as `example` does;
    `accepts_now` is true if a cell may be `now()`. Text of the form `bool` is one of the true and false
    words. Widths are in terminal cells: of a column without rows, and of any.
    """

    name: TypeName
    form: Form
    _: KW_ONLY
    pattern: str
    example: str
    accepts_now: bool
    true_words: list[str]
    false_words: list[str]
    width: int
    min_width: int


@dataclass(frozen=True, slots=True)
class TypeList:
    """The column types in display order."""

    types: list[TypeView]


@dataclass(frozen=True, slots=True)
class TableList:
    """The tables and views of a project, in the order of their names."""

    tables: list[Table]


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """One applied migration."""

    name: str
    sha256: str
    applied: str


@dataclass(frozen=True, slots=True)
class MigrationList:
    """The applied migrations, in the order of their names."""

    applied: list[AppliedMigration]


def list_types() -> TypeList:
    """Return all column types."""
    types = [
        TypeView(
            name=type.name,
            form=type.form,
            pattern=type.pattern,
            example=type.example,
            accepts_now=type.now is not None,
            true_words=list(TRUE_WORDS) if type.form == "bool" else [],
            false_words=list(FALSE_WORDS) if type.form == "bool" else [],
            width=type.width,
            min_width=type.min_width,
        )
        for type in TYPES.values()
    ]
    return TypeList(types)


def list_tables(connection: Connection) -> TableList:
    """Return all tables."""
    end = time.monotonic() + COUNT_SECONDS
    return TableList([_counted(connection, table, end) for table in read(connection).values()])


def list_migrations(connection: Connection) -> MigrationList:
    """Return the applied migrations."""
    if not applied(connection):
        return MigrationList([])
    applied_rows = rows(connection, f"SELECT name, sha256, applied FROM {RECORD} ORDER BY name")
    return MigrationList([AppliedMigration(*row) for row in applied_rows])


def _counted(connection: Connection, table: Table, end: float) -> Table:
    """Return a table whose rows were counted, until a time in seconds of `monotonic`."""
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_PER_CHECK)
    try:
        count = int(scalar(connection, f"SELECT count(*) FROM {quoted(table.name)}"))
    except Error:
        count = None  # The time has passed, or a view refers to a missing table.
    finally:
        connection.set_progress_handler(None)
    return replace(table, rows=count)


class NewColumn(StrictModel):
    """A new column. `default` is an SQL literal, or `now()`."""

    name: str
    type: KnownType
    nullable: bool = True
    default: str | None = None
    primary_key: bool = False
    unique: bool = False
    note: str = ""

    def column(self) -> catalog.Column:
        return catalog.Column(**self.model_dump())


class CreateTableModel(StrictModel):
    """Create a table; its key is the columns with `primary_key`, in their order."""

    op: Literal["create-table"]
    table: str
    columns: list[NewColumn]
    note: str = ""

    def apply_to(self, connection: Connection) -> None:
        columns = [each.column() for each in self.columns]
        change.CreateTable(self.table, columns, self.note).apply_to(connection)


class AddColumnModel(StrictModel):
    """Add a column at the end."""

    op: Literal["add-column"]
    table: str
    column: NewColumn

    def apply_to(self, connection: Connection) -> None:
        change.AddColumn(self.table, self.column.column()).apply_to(connection)


class Changes(StrictModel):
    """Changes that are applied in order in one transaction."""

    changes: list[
        Annotated[CreateTableModel | AddColumnModel | change.RequestChange, Field(discriminator="op")]
    ] = Field(min_length=1, max_length=1000)


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
    A statement that changes the schema needs `write`, the role owner, and no parameters. `at` reads the
    tables as they were at a moment.
    """

    sql: str
    params: list[Any] = Field([])
    write: bool = False
    limit: int = Field(default=MAX_ROWS, ge=0, le=MAX_ROWS)
    cells: bool = False
    at: past.At | None = None


class HistoryQuery(QueryModel):
    """A row: its table and key as JSON text (`[12]`), and one column of it or all. Or a request by its id."""

    table: str = ""
    key: str = "[]"
    column: str = ""
    request: str = ""
    limit: int = Field(default=100, ge=1, le=past.MAX_WRITES)


class RevertQuery(StrictModel):
    """An entry of the history. With `plan` nothing is changed.

    Rows that have changed since are conflicts: nothing is changed or, with `skip`, other rows are.
    """

    entry: str
    plan: bool = False
    conflicts: Literal["refuse", "skip"] = "refuse"


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


def blueprint(projects: Projects) -> Routes:
    """Return the routes."""
    routes = Routes("tables", __name__)

    @routes.get("/v1/projects/<project>/tables")
    async def tables(project: str) -> TableList:
        """List the tables and views; needs the role viewer."""
        return await _read(require_data_dir(projects, project, "viewer"), list_tables)

    @routes.get("/v1/projects/<project>/tables/types")
    async def types(project: str) -> TypeList:
        """List the column types; needs the role viewer."""
        require_data_dir(projects, project, "viewer")
        return list_types()

    @routes.get("/v1/projects/<project>/table")
    async def table(project: str, query_args: TableQuery) -> Table:
        """Show one table; needs the role viewer."""

        def show(connection: Connection) -> Table:
            found = find(read(connection), query_args.name, "not-found")
            return _counted(connection, found, time.monotonic() + COUNT_SECONDS)

        return await _read(require_data_dir(projects, project, "viewer"), show)

    @routes.post("/v1/projects/<project>/schema")
    async def schema(project: str, data: Changes) -> TableList:
        """Change the schema in one transaction and return all tables; needs the role owner."""
        folder = require_data_dir(projects, project, "owner")

        def work(connection: Connection) -> TableList:
            change.apply(connection, data.changes)
            return list_tables(connection)

        return await _write(folder, work, "schema")

    @routes.post("/v1/projects/<project>/sql")
    @document_response(Result)
    async def query(project: str, data: SqlQuery) -> Response:
        """Run one statement; to read needs the role viewer, to write rows deployer, the schema owner."""
        schema = data.write and changes_schema(data.sql)
        folder = require_data_dir(
            projects, project, "owner" if schema else "deployer" if data.write else "viewer"
        )
        run = partial(_run_sql, query=data)
        result = await access().run(_write(folder, run, "sql") if data.write else _read(folder, run))
        return Response(result, content_type="application/json")

    @routes.get("/v1/projects/<project>/migrations")
    async def applied(project: str) -> MigrationList:
        """List the applied migrations; needs the role viewer."""
        return await _read(require_data_dir(projects, project, "viewer"), list_migrations)

    @routes.post("/v1/projects/<project>/migrations")
    @document_request(Migrations)
    async def migrate(project: str) -> MigrationsDone:
        """Apply pending migrations in one transaction; needs the role deployer, to plan viewer."""
        require_data_dir(projects, project, "viewer")
        body = await read_large(Migrations, MAX_MIGRATION_BYTES, "the migrations", _ROWS_HINT)
        folder = require_data_dir(projects, project, "viewer" if body.plan else "deployer")
        files = [Migration(each.name, each.sql) for each in body.files]
        if body.plan:
            pending = await _read(folder, lambda connection: migrations.pending(connection, files))
            return MigrationsDone(applied=[each.name for each in pending])
        names = await _write(folder, lambda connection: migrations.apply(connection, files), "migration")
        return MigrationsDone(applied=list(names))

    transfers = file_routes.Transfers()
    file_routes.add_routes(routes, projects, transfers)
    grid_routes.add_routes(routes, projects, transfers)
    add_row_routes(routes, projects)
    _add_history_routes(routes, projects)
    return routes


def _add_history_routes(routes: Routes, projects: Projects) -> None:

    @routes.get("/v1/projects/<project>/tables/history")
    async def history(project: str, query_args: HistoryQuery) -> past.History:
        """Return what wrote a row, or what a request wrote, newest first; needs the role viewer."""
        folder = require_data_dir(projects, project, "viewer")
        search = query_args.model_dump() | {"key": grid_routes.read_key(query_args.key)}
        return await _read(folder, lambda connection: past.find_writes(connection, **search))

    @routes.post("/v1/projects/<project>/tables/revert")
    async def revert_entry(project: str, data: RevertQuery) -> past.Reverted:
        """Undo an entry of the history in one transaction; needs the role deployer, to plan viewer."""
        folder = require_data_dir(projects, project, "viewer" if data.plan else "deployer")
        work = partial(past.revert, entry=data.entry, plan=data.plan, skip=data.conflicts == "skip")
        return await _write(folder, work, "revert")


def _run_sql(connection: Connection, query: SqlQuery) -> bytes:
    if query.at is None:
        limit, cells = query.limit, query.cells
        return run_sql(connection, query.sql, query.params, write=query.write, limit=limit, cells=cells)
    read_only = SvcError("a moment before now is read-only", "Read it, or leave out `at`.", code="conflict")
    if query.write:
        raise read_only
    with past.tables_at(connection, query.at) as (path, _), closing(open_owner(path)) as copy:
        past.require_keys(copy, query.sql)
        copy.execute("pragma query_only = on")
        try:
            return _run_sql(copy, query.model_copy(update={"at": None}))
        except SvcError as error:
            raise read_only if error.code == "writes-in-query" else error from None


async def _read(data: Path, work: Callable[[Connection], _T]) -> _T:
    return await run_with_connection(data, open_for_reading(data), work)


async def _write(data: Path, work: Callable[[Connection], _T], by: str) -> _T:
    opened = open_for_writing(data, origin=Origin(by, user=principal().name))
    return await run_with_connection(data, opened, work)
