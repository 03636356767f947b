"""Container of a capsule: a zip file whose member `capsule.json` has the sha256 and size of each other one.

A container is untrusted. It is unpacked and checked as a whole, also the shapes of its documents, before
anything reads or runs a part of it.
"""

import hashlib
import json
import re
import struct
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Annotated, Any, BinaryIO, Literal, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)

from engine.door import Severity
from engine.errors import SvcError
from engine.grant import Grant
from engine.timeline.record import CALL_FIELDS, SPAN_FIELDS, RequestRecord, parse_utc
from engine.trace import Call

FORMAT, VERSION = "svc-capsule", 1
HEAD = "capsule.json"
MAX_FILE_BYTES = 256 << 20
MAX_BYTES = 512 << 20
MAX_DOCUMENT_BYTES = 32 << 20
MAX_HEAD_BYTES = 4 << 20
"""Maximum size of a capsule, of its unpacked members, of one with text, and of `capsule.json`."""
MAX_MEMBERS = 10_000
_MAX_DIRECTORY_BYTES = 4 << 20
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){0,4}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_END = struct.Struct("<4s4H2LH")
_LOCATOR_BYTES = 20
_TIME = (1980, 1, 1, 0, 0, 0)
_BLOCK = 1 << 20
_SPOOL_BYTES = 8 << 20


class CapsuleError(SvcError):
    """A capsule cannot be made or is invalid."""

    code = "capsule"


@dataclass(frozen=True, slots=True)
class Capsule:
    """An unpacked capsule. `head` is the document of `capsule.json`, `folder` has the members.

    `documents` are the checked documents of members, by their names.
    """

    folder: Path
    head: Mapping[str, Any]
    _: KW_ONLY
    size: int
    documents: Mapping[str, Any] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.head["members"]

    def bytes(self, name: str) -> bytes:
        """Return a member with text. Raises `CapsuleError` if it is missing or too large."""
        if not self.has(name):
            raise _invalid(f"it has no {name}")
        if self.head["members"][name][1] > MAX_DOCUMENT_BYTES:
            raise _invalid(f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB")
        return (self.folder / name).read_bytes()

    def json(self, name: str, loads: Callable[[Any], Any] | None = None) -> Any:
        """Return the document of a member, which is not checked. Raises `CapsuleError`."""
        try:
            return (loads or _loads)(self.bytes(name))
        except (ValueError, RecursionError) as error:
            raise _invalid(f"{name} is not JSON") from error


def _integer(text: str) -> float:
    """Return a number of JSON; one of more than 64 bits is a float."""
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else float(text)


_loads = partial(json.loads, parse_int=_integer)


def write_container(head: Mapping[str, Any], members: Mapping[str, bytes | Path]) -> BinaryIO:
    """Return a capsule as an open temporary file, positioned at its start.

    `head` gets format, version and members. Raises `CapsuleError` above the limits.
    """
    listed = {name: _measured(source) for name, source in members.items()}
    if len(members) > MAX_MEMBERS or sum(size for _, size in listed.values()) > MAX_BYTES:
        raise _too_large(f"the capsule would have more than {MAX_BYTES >> 20} MiB or {MAX_MEMBERS:,} files")
    document = {"format": FORMAT, "version": VERSION, **head, "members": listed}
    file: Any = SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - the caller closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=False) as archive:
        _add(archive, HEAD, json.dumps(document, indent=1, ensure_ascii=False).encode())
        for name, source in members.items():
            _add(archive, name, source)
    if file.seek(0, 2) > MAX_FILE_BYTES:
        file.close()
        raise _too_large(f"the capsule has more than {MAX_FILE_BYTES >> 20} MiB")
    file.seek(0)
    return file  # type: ignore[no-any-return]


def _too_large(
    message: str, hint: str = "Leave parts out: no --with-artifacts, or --no-rows."
) -> CapsuleError:
    return CapsuleError(message, hint, code="too-large")


def _measured(source: bytes | Path) -> tuple[str, int]:
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest(), len(source)
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


def _add(archive: zipfile.ZipFile, name: str, source: bytes | Path) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    if isinstance(source, bytes):
        archive.writestr(info, source)
        return
    with source.open("rb") as file, archive.open(info, "w") as member:
        while block := file.read(_BLOCK):
            member.write(block)


def read_container(path: Path, folder: Path) -> Capsule:
    """Unpack a capsule to an empty folder and check all of it. Raises `CapsuleError`."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise CapsuleError("it is not a file", "Pass a file that `svc capsule` wrote.")
        if size > MAX_FILE_BYTES:
            limit = f"{MAX_FILE_BYTES >> 20} MiB, the maximum of a capsule"
            raise _too_large(f"the file is larger than {limit}", "Check that it is the right file.")
        with path.open("rb") as file:
            _check_directory(file, size)
            with zipfile.ZipFile(file) as archive:
                return Capsule(folder, _unpack(archive, folder), size=size)
    except OSError as error:
        raise CapsuleError(f"cannot read {path}: {error.strerror or error}", "Check the path.") from error
    except CapsuleError as error:
        raise CapsuleError(f"{path}: {error.message}", error.hint, code=error.code) from error
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError) as error:
        raise _invalid(f"{path} is not a complete zip file ({error})") from error


def _check_directory(file: BinaryIO, size: int) -> None:
    """Check the end record before a reader allocates memory for the entries that it announces."""
    file.seek(max(0, size - _LOCATOR_BYTES - _END.size - 65_535))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise _invalid("it is not a zip file")
    _, _, _, _, entries, directory, _, _ = _END.unpack_from(tail, at)
    if tail[at - _LOCATOR_BYTES : at].startswith(b"PK\6\7"):
        raise _invalid("it is a zip64 file")  # Its own end record would replace this one.
    if entries > MAX_MEMBERS + 1 or directory > _MAX_DIRECTORY_BYTES:
        raise _invalid(f"it has more than {MAX_MEMBERS:,} files")
    file.seek(0)


def _unpack(archive: zipfile.ZipFile, folder: Path) -> Mapping[str, Any]:
    infos = archive.infolist()
    names = [info.filename for info in infos]
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in infos):
        raise _invalid("a file in it is compressed by a method other than deflate")
    if HEAD not in names:
        raise _invalid(f"it has no {HEAD}")
    head_info = archive.getinfo(HEAD)
    if head_info.file_size > MAX_HEAD_BYTES:
        raise _invalid(f"{HEAD} is larger than {MAX_HEAD_BYTES >> 20} MiB")
    with archive.open(head_info) as member:
        head = _head(member.read(MAX_HEAD_BYTES + 1))
    members: dict[str, tuple[str, int]] = head["members"]
    if len(set(names)) != len(names):
        raise _invalid("it has two files of one name")
    if differing := set(names) ^ {HEAD, *members}:
        raise _invalid(f"its files are not those that {HEAD} lists: {min(differing)[:80]!r}")
    for name, (digest, size) in members.items():
        target, hashed, count = folder / name, hashlib.sha256(), 0
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as member, target.open("xb") as file:
                while count <= size and (block := member.read(_BLOCK)):
                    count += len(block)
                    hashed.update(block)
                    file.write(block)
        except (FileExistsError, NotADirectoryError) as error:
            raise _invalid(f"{name} has the place of another file or its folder") from error
        if count != size or hashed.hexdigest() != digest:
            raise _invalid(f"{name} differs from its digest: the file was changed or is damaged")
    return head


def _head(text: bytes) -> Mapping[str, Any]:
    """Return the document of `capsule.json` if its version and members are valid."""
    try:
        head = json.loads(text)
        if head["format"] != FORMAT or not isinstance(head["version"], int):
            raise ValueError("format")
        if head["version"] != VERSION:
            raise CapsuleError(
                f"the capsule has version {head['version']} of the format, and this svc reads {VERSION}",
                "Update svc." if head["version"] > VERSION else "Use the svc that made it.",
                code="capsule-version",
            )
        total = 0
        for name, (digest, size) in head["members"].items():
            if not _NAME.fullmatch(name) or name == HEAD or not _DIGEST.fullmatch(digest):
                raise _invalid(f"{HEAD} lists an invalid name or digest: {name[:80]!r}")
            if type(size) is not int or size < 0:
                raise ValueError("size")
            total += size
        if total > MAX_BYTES:
            message = f"the capsule has more than {MAX_BYTES >> 20} MiB when unpacked"
            raise _too_large(message, "Check that it is the right file.")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _invalid(f"{HEAD} is invalid") from error
    return head  # type: ignore[no-any-return]


def _invalid(reason: str) -> CapsuleError:
    return CapsuleError(
        f"not a valid capsule: {reason}", "Get the file again from the person or program that made it."
    )


EXCHANGE, STATEMENTS, FETCHES, TABLES = "exchange.json", "statements.json", "fetches.json", "tables.db"
MAX_CALLS = 1000
MAX_RECORDS = 20_000
"""Maximum calls of each kind, and records, of a request."""


def _base64(text: str) -> str:
    b64decode(text, validate=True)
    return text


def _time(text: str) -> str:
    parse_utc(text)
    return text


_HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9a-z:-]{1,1000}$")]
_HeaderValue = Annotated[str, StringConstraints(pattern="^[\\t\\x20-\\x7e\\x80-\\xff]*$")]
_Headers = list[tuple[_HeaderName, _HeaderValue]]
_Method = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$")]
_Body = Annotated[str, AfterValidator(_base64)]
_Text = Annotated[str, StringConstraints(max_length=200)]
_Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
_ResourceName = Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9-]{0,38}$")]
_Time = Annotated[str, AfterValidator(_time)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Status = Annotated[int, Field(ge=100, le=999)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Artifact(_Model):
    kind: Literal["component", "image"]
    sha256: _Digest
    """Digest of its package."""
    included: bool


class _Tables(_Model):
    names: list[str]
    undone: _Count
    failed: _Count
    """Numbers of changes that were and could not be undone."""


class _Head(_Model):
    """The members of `capsule.json` besides those of the container."""

    model_config = ConfigDict(extra="ignore")
    svc: _Text
    created: _Text
    project: _ResourceName
    request_id: Annotated[str, StringConstraints(pattern="^[0-9a-z]{1,64}$")]
    deployed: bool
    recorded: bool
    artifacts: dict[_ResourceName, _Artifact]
    tables: _Tables | None = None
    redacted: list[tuple[str, str, _Count]]
    notes: list[str]


class _Message(_Model):
    headers: _Headers
    body: _Body
    size: _Count
    truncated: bool


class _Request(_Message):
    method: _Method
    target: Annotated[str, StringConstraints(pattern="^[/*][\\x21-\\x7e\\x80-\\xff]*$")]
    scheme: Literal["http", "https"]
    authority: Annotated[str, StringConstraints(pattern=r"^[!-~]{0,300}$")]


class _Response(_Message):
    status: _Status
    complete: bool


class _RecordHead(BaseModel):
    """The members of all records. Unknown ones are left out."""

    node: str = ""
    region: str = ""
    cursor: int
    kind: str
    time: _Time
    level: Severity
    resource: str
    request_id: str


def _members(record: type, names: Sequence[str]) -> dict[str, Any]:
    types = get_type_hints(record)
    return {name: (types[name], ...) for name in names}


_TEXT = (str, ...)
_call: Any = create_model(
    "_Call",
    **_members(Call, CALL_FIELDS),
    span_id=_TEXT,
    parent=_TEXT,
    attributes=(dict[str, int | str], ...),
)
_MEMBERS: dict[str, dict[str, Any]] = {
    "request": {
        **_members(RequestRecord, SPAN_FIELDS),
        "calls": (list[_call], []),
        "calls_omitted": (int, 0),
    },
    "structured": {"trace_id": _TEXT, "span_id": _TEXT, "body": _TEXT, "attributes": (dict[str, str], ...)},
    "platform": {"body": _TEXT, "grant": (Grant | None, None)},
    "stdout": {"body": _TEXT},
    "stderr": {"body": _TEXT},
}
_RECORDS = {kind: create_model(kind, __base__=_RecordHead, **members) for kind, members in _MEMBERS.items()}


def _record(document: dict[str, Any]) -> dict[str, Any]:
    try:
        return _RECORDS[document["kind"]].model_validate(document).model_dump(exclude_unset=True)
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError("not a record") from error


_Record = Annotated[dict[str, Any], AfterValidator(_record)]


class _Exchange(_Model):
    request_id: _Text
    time: _Time
    replay_of: _Text | None
    request: _Request
    response: _Response | None
    code: _Text
    wall_ns: _Count
    compute_ns: _Count
    peak_memory: _Count | None
    records: Annotated[list[_Record], Field(max_length=MAX_RECORDS)]


class _RowChange(_Model):
    operation: Literal["INSERT", "UPDATE", "DELETE"]
    table: str
    rowid: int | None = None
    """Earlier versions of svc wrote `rowid` and `new_rowid` instead of `key`."""
    new_rowid: int | None = None
    key: dict[str, Any] = {}
    before: dict[str, Any] | list[Any] | None
    after: dict[str, Any] | list[Any] | None
    """Values by the names of columns, or in their order."""


class _Statement(_Model):
    span_id: _Text
    time: _Time
    request: dict[str, Any] | str
    response: Any
    changes: list[_RowChange]
    complete: bool


class _FetchRequest(_Model):
    method: _Method
    url: Annotated[str, StringConstraints(pattern="^https?://[\\x21-\\x7e\\x80-\\xff]+$")]
    headers: _Headers
    body: _Body


class _FetchResponse(_Model):
    status: _Status
    headers: _Headers
    body: _Body


class _Fetch(_Model):
    span_id: _Text
    time: _Time
    request: _FetchRequest
    response: _FetchResponse | None
    complete: bool


class _Calls(_Model):
    statements: Annotated[list[_Statement], Field(max_length=MAX_CALLS)] = []
    fetches: Annotated[list[_Fetch], Field(max_length=MAX_CALLS)] = []


def read_capsule(path: Path, folder: Path) -> Capsule:
    """Unpack a capsule to an empty folder, and check its digests and documents. Raises `CapsuleError`."""
    capsule = read_container(path, folder)
    head = {**capsule.head, **_checked(HEAD, _Head, capsule.head)}
    documents = {
        EXCHANGE: _checked(EXCHANGE, _Exchange, capsule.json(EXCHANGE)),
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
        raise _invalid(f"{name}: {field}: {first['msg']}") from error
    except RecursionError as error:
        raise CapsuleError(f"not a valid capsule: {name} is nested too deeply", "") from error
