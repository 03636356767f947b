"""Validation of the documents in a capsule, which is untrusted."""

from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.type_adapter import TypeAdapter

from engine.timeline.json_format import from_json, parse_utc, to_json
from engine.timeline.record import Record
from svc_tui.capsule.container import Capsule, CapsuleError, read_container

HEAD, EXCHANGE, STATEMENTS, TABLES = "capsule.json", "exchange.json", "statements.json", "tables.db"
FETCHES = "fetches.json"
MAX_CALLS = 1000
MAX_RECORDS = 20_000
"""Maximum calls of each kind, and records, of a request."""


def _base64(text: str) -> str:
    b64decode(text, validate=True)
    return text


def _time(text: str) -> str:
    parse_utc(text)
    return text


def _record(document: dict[str, Any]) -> dict[str, Any]:
    try:
        entry = from_json(document)
        return to_json(replace(entry, record=_RECORD.validate_python(entry.record)))
    except (KeyError, TypeError, AttributeError, OverflowError, ValidationError) as error:
        raise ValueError("not a record") from error


_HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9a-z:-]{1,1000}$")]
_HeaderValue = Annotated[str, StringConstraints(pattern="^[\\t\\x20-\\x7e\\x80-\\xff]*$")]
_Method = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$")]
_Body = Annotated[str, AfterValidator(_base64)]
_Text = Annotated[str, StringConstraints(max_length=200)]
_Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
_ResourceName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9-]{0,38}$")]
_Time = Annotated[str, AfterValidator(_time)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Record = Annotated[dict[str, Any], AfterValidator(_record)]
_RECORD: TypeAdapter[Record] = TypeAdapter(Record, config=ConfigDict(revalidate_instances="always"))


class _CapsuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ArtifactHead(_CapsuleModel):
    """An artifact: its kind, the digest of its package, and whether the capsule has its files."""

    kind: Literal["component", "image"]
    sha256: _Digest
    included: bool


class TablesHead(_CapsuleModel):
    """The tables in a capsule, and the numbers of changes that were and could not be undone."""

    names: list[str]
    undone: _Count
    failed: _Count


class CapsuleHead(_CapsuleModel):
    """The members of `capsule.json` besides those of the container."""

    model_config = ConfigDict(extra="ignore")
    svc: _Text
    created: _Text
    project: _ResourceName
    request_id: Annotated[str, StringConstraints(pattern="^[0-9a-z]{1,64}$")]
    deployed: bool
    recorded: bool
    artifacts: dict[_ResourceName, ArtifactHead]
    tables: TablesHead | None = None
    redacted: list[tuple[str, str, _Count]]
    notes: list[str]


class CapsuleMessage(_CapsuleModel):
    """The header fields and the body of a message."""

    headers: list[tuple[_HeaderName, _HeaderValue]]
    body: _Body
    size: _Count
    truncated: bool


class CapsuleRequest(CapsuleMessage):
    """The recorded request."""

    method: _Method
    target: Annotated[str, StringConstraints(pattern="^[/*][\\x21-\\x7e\\x80-\\xff]*$")]
    scheme: Literal["http", "https"]
    authority: Annotated[str, StringConstraints(pattern=r"^[!-~]{0,300}$")]


class CapsuleResponse(CapsuleMessage):
    """The recorded response."""

    status: Annotated[int, Field(ge=100, le=999)]
    complete: bool


class CapsuleExchange(_CapsuleModel):
    """`exchange.json`."""

    request_id: _Text
    time: _Time
    replay_of: _Text | None
    request: CapsuleRequest
    response: CapsuleResponse | None
    code: _Text
    wall_ns: _Count
    compute_ns: _Count
    peak_memory: _Count | None
    records: Annotated[list[_Record], Field(max_length=MAX_RECORDS)]


class RowChange(_CapsuleModel):
    """A changed row; values by the names of columns, or in their order."""

    operation: Literal["INSERT", "UPDATE", "DELETE"]
    table: str
    rowid: int
    new_rowid: int
    before: dict[str, Any] | list[Any] | None
    after: dict[str, Any] | list[Any] | None


class CapsuleStatement(_CapsuleModel):
    """A request to the tables."""

    span_id: _Text
    time: _Time
    request: dict[str, Any] | str
    response: Any
    changes: list[RowChange]
    complete: bool


class FetchRequest(_CapsuleModel):
    """A request to another server. `body` is base64."""

    method: _Method
    url: Annotated[str, StringConstraints(pattern="^https?://[\\x21-\\x7e\\x80-\\xff]+$")]
    headers: list[tuple[_HeaderName, _HeaderValue]]
    body: _Body


class FetchResponse(_CapsuleModel):
    """A response of another server. `body` is base64."""

    status: Annotated[int, Field(ge=100, le=999)]
    headers: list[tuple[_HeaderName, _HeaderValue]]
    body: _Body


class CapsuleFetch(_CapsuleModel):
    """A request to another server, and its response."""

    span_id: _Text
    time: _Time
    request: FetchRequest
    response: FetchResponse | None
    complete: bool


class _Calls(_CapsuleModel):
    statements: Annotated[list[CapsuleStatement], Field(max_length=MAX_CALLS)] = []
    fetches: Annotated[list[CapsuleFetch], Field(max_length=MAX_CALLS)] = []


def read_capsule(path: Path, folder: Path) -> Capsule:
    """Unpack a capsule to an empty folder, and check its digests and documents. Raises `CapsuleError`."""
    capsule = read_container(path, folder)
    head = {**capsule.head, **_checked(HEAD, CapsuleHead, capsule.head)}
    documents = {
        EXCHANGE: _checked(EXCHANGE, CapsuleExchange, capsule.json(EXCHANGE)),
        STATEMENTS: _checked(STATEMENTS, _Calls, {"statements": capsule.json(STATEMENTS)})["statements"],
        FETCHES: _checked(FETCHES, _Calls, {"fetches": capsule.json(FETCHES)})["fetches"],
    }
    return replace(capsule, head=head, documents=documents)


def statements_of(request: Any) -> list[tuple[str, Any]]:
    """Return the SQL and the parameters of each statement in a request to the tables."""
    statements = request.get("statements", [request]) if isinstance(request, dict) else ()
    return [
        (str(statement.get("sql", "")), statement.get("params"))
        for statement in (statements if isinstance(statements, list) else ())
        if isinstance(statement, dict)
    ]


def _checked(name: str, model: type[BaseModel], document: Any) -> dict[str, Any]:
    try:
        return model.model_validate(document).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))[:100]
        raise CapsuleError(
            f"not a valid capsule: {name}: {field}: {first['msg']}",
            "Get the file again from the person or program that made it.",
        ) from error
    except RecursionError as error:
        raise CapsuleError(f"not a valid capsule: {name} is nested too deeply", "") from error
