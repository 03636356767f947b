"""The route that changes rows: many in one transaction, with optimistic concurrency control.

Failed changes are part of the response, not HTTP errors: `conflicts` are rows that others have changed or
deleted, `errors` are changes that violate a constraint. With errors nothing is changed; with conflicts
nothing either, unless the request skips them. Needs the role deployer.
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Discriminator, FailFast, Field, Tag, ValidationError
from quart import Blueprint, Response, request
from quart_schema import RequestSchemaValidationError, document_request, document_response

from doors.tables.api.file_routes import require_data_dir
from doors.tables.api.query import run_with_connection
from doors.tables.rows import changeset
from doors.tables.rows.changeset import Outcome, apply
from doors.tables.sqlite.errors import Connection
from doors.tables.sqlite.owner import open_for_writing
from doors.tables.types.json import encode
from engine.control.projects import Projects
from engine.control.schemas import StrictModel
from engine.control.streaming_body import parse_json
from engine.errors import SvcError

MAX_CHANGES = 10_000
MAX_BYTES = 32 << 20
MAX_VALUES = 1_000_000
"""Maximum changes, bytes and values of a request."""
_Form = TypeVar("_Form", bound=BaseModel)


class DeleteChange(StrictModel):
    """A row, and the cells that the client has read. Other cells are not compared.

    The key is a list, as in a grid's rows, or an object by column name.
    """

    key: dict[str, Any] | list[Any]
    expected: dict[str, Any] = Field({})


class UpdateChange(DeleteChange):
    """The same, with the cells to write."""

    set: dict[str, Any] = Field(min_length=1)


class InsertRow(StrictModel):
    """A new row: cells by column name. A missing column gets its default."""

    insert: dict[str, Any]

    def value(self) -> changeset.Change:
        """Return the change."""
        return changeset.Insert(self.insert)


class UpdateRow(StrictModel):
    """New cells of a row."""

    update: UpdateChange

    def value(self) -> changeset.Change:
        """Return the change."""
        return changeset.Update(self.update.key, self.update.expected, self.update.set)


class DeleteRow(StrictModel):
    """Delete a row."""

    delete: DeleteChange

    def value(self) -> changeset.Change:
        """Return the change."""
        return changeset.Delete(self.delete.key, self.delete.expected)


def _kind(change: Any) -> str:
    names = ("insert", "update", "delete")
    return next((name for name in names if isinstance(change, dict) and name in change), "")


AnyRowChange = Annotated[
    Annotated[InsertRow, Tag("insert")]
    | Annotated[UpdateRow, Tag("update")]
    | Annotated[DeleteRow, Tag("delete")],
    Discriminator(
        _kind,
        custom_error_type="change",
        custom_error_message="it is not insert, update or delete",
    ),
]


class RowChanges(StrictModel):
    """Changes of a table's rows, applied in order. A cell is as in a grid, or its text.

    A timestamp may be ISO 8601 with any offset, or `now()`; json is its text; a blob is `{"base64": "…"}`.
    """

    table: str
    changes: Annotated[list[AnyRowChange], FailFast()] = Field(min_length=1, max_length=MAX_CHANGES)
    conflicts: Literal["refuse", "skip"] = "refuse"


def add_routes(routes: Blueprint, projects: Projects) -> None:
    """Add the route."""

    @routes.post("/v1/projects/<project>/rows")
    @document_request(RowChanges)
    @document_response(Outcome)
    async def change_rows(project: str) -> Response:
        """Insert, update and delete rows in one transaction; needs the role deployer."""
        folder = require_data_dir(projects, project, "deployer")
        body = await read_large(RowChanges, MAX_BYTES, "the changes", "Import many rows as a file.")

        def work(connection: Connection) -> bytes:
            row_changes = [each.value() for each in body.changes]
            return encode(asdict(apply(connection, body.table, row_changes, skip=body.conflicts == "skip")))

        result = await run_with_connection(folder, open_for_writing(folder), work)
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
