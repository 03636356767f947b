"""Collection of what a capsule contains: the records of a request, its SQL, its rows and its artifacts.

The records are those of `svc dev` in this folder, or of the service. Artifacts are built, packed, and
unpacked again.
"""

import asyncio
import math
import os
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from doors.tables.files.snapshot import Snapshot, copy_before, redact_columns, redact_values, rows_written
from engine.artifact import Artifact, ComponentArtifact, FolderArtifact, StaticBundle
from engine.build.builder import Builder
from engine.deploy.package_store import COMPONENT, SCRIPT, SOURCE_MAP, PackageError, decode, pack
from engine.dev.env_file import development_values
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.gateway.door_delivery import FILES_URL
from engine.lane import BuildMode
from engine.manifest import MANIFEST
from engine.manifest.load import parse as parse_manifest
from engine.manifest.load import read as read_manifest
from engine.manifest.model import Project
from engine.manifest.problems import ManifestError
from engine.stepwise_json import dump_verbatim, load_verbatim
from engine.timeline.database import timeline_path
from engine.timeline.query import RecordFilter, open_reader
from engine.timeline.record import BUILT, Document, format_utc, parse_utc
from engine.timeline.recording import (
    REDACTED_VALUE,
    RecordedCall,
    RecordedExchange,
    RecordedMessage,
    exchange_document,
    restored,
)
from engine.timeline.recording import decode as decode_exchange
from svc_tui import version
from svc_tui.capsule.container import (
    EXCHANGE,
    FETCHES,
    MAX_DOCUMENT_BYTES,
    MAX_RECORDS,
    STATEMENTS,
    TABLES,
    Capsule,
    CapsuleError,
    statements_of,
)
from svc_tui.capsule.redaction import Redactor, fetch_document, redacted_fetch
from svc_tui.client.discovery import find_running
from svc_tui.composition import lanes
from svc_tui.logs import complete_id, remote_pages, resolve_target
from svc_tui.terminal.units import size

PACKAGE = "package.json"


@dataclass(frozen=True, slots=True)
class PackedArtifact:
    """An artifact: its digest (that of its package), its kind, and its files by name."""

    digest: str
    kind: str
    files: Mapping[str, bytes | Path]


async def build_artifacts(
    project: Project, names: Iterable[str], cache: Path, mode: BuildMode, report: Callable[[str], None]
) -> dict[str, Artifact]:
    """Build resources, or find earlier builds of the same sources. Raises the errors of builds."""
    from lanes.static.pack import Packing
    from lanes.static.pack import pack as pack_folder

    available = lanes()
    builder = Builder(available, cache, mode, os.environ)
    workers = ThreadPoolExecutor(os.cpu_count() or 1)
    built: dict[str, Artifact] = {}
    try:
        for name in names:
            resource = project.resources[name]
            artifact = await builder.remembered(resource, project.root)
            if artifact is None:
                artifact = await builder.build(resource, project.root, report, remember=False)
            if isinstance(artifact, FolderArtifact):
                artifact = await pack_folder(
                    artifact.root, Packing(cache, 5, 6, workers, report, verify=False)
                )
            built[name] = artifact
    finally:
        workers.shutdown(wait=False, cancel_futures=True)
        await asyncio.gather(*(lane.aclose() for lane in available.values()))
    return built


def packed(artifact: Artifact) -> PackedArtifact:
    """Return the files of an artifact. Raises `SvcError`."""
    contents = pack(artifact)
    document = contents.package.encode()
    files = {name: contents.contents[part.digest] for name, part in contents.package.files.items()}
    return PackedArtifact(sha256(document).hexdigest(), contents.package.kind, {PACKAGE: document, **files})


def unpacked(capsule: Capsule, resource: str) -> Artifact:
    """Return the artifact of a resource in a capsule. Raises `CapsuleError`."""
    folder = capsule.folder / "artifacts" / resource
    try:
        package = decode(capsule.bytes(f"artifacts/{resource}/{PACKAGE}"))
        for name, part in package.files.items():
            member = f"artifacts/{resource}/{name}"
            if not capsule.has(member) or tuple(capsule.head["members"][member]) != (part.digest, part.size):
                raise PackageError(f"{name} differs from its digest or size in {PACKAGE}")
        if package.kind == "image":
            return StaticBundle(folder, package.artifact)
        prefix = f"artifacts/{resource}"
        script = capsule.bytes(f"{prefix}/{SCRIPT}").decode() if SCRIPT in package.files else None
        source_map = capsule.bytes(f"{prefix}/{SOURCE_MAP}") if SOURCE_MAP in package.files else None
        return ComponentArtifact(folder / COMPONENT, package.artifact, script, source_map)
    except (PackageError, UnicodeDecodeError) as error:
        reason = error.message if isinstance(error, SvcError) else "its script is not UTF-8"
        raise CapsuleError(
            f"the artifact of resource {resource} in the capsule is invalid: {reason}",
            "Make the capsule again.",
        ) from error


MAX_TABLES_BYTES = 64 << 20
"""Maximum bytes of the tables in a capsule."""
_WITH_FILE = (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)
_MESSAGE_VALUES = ("target", "headers")
_RECORD_VALUES = ("body", "detail", "target", "attributes", "calls")
_STATEMENT_VALUES = ("request", "response", "changes")
"""Members of messages, records and calls whose texts can have values of credentials."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it is recorded. `exchange` is None without header fields and bodies.

    `rebuilt` are the resources that were built after it. `deployed` is true for a request to a service.
    """

    request_id: str
    entries: Sequence[Document]
    exchange: RecordedExchange | None = None
    _: KW_ONLY
    rebuilt: Sequence[str] = ()
    deployed: bool = False

    @property
    def spans(self) -> list[Document]:
        return [entry for entry in self.entries if entry["kind"] == "request"]

    @property
    def resources(self) -> list[str]:
        return sorted({span["resource"] for span in self.spans})

    @property
    def statements(self) -> list[RecordedCall]:
        """The calls to the tables."""
        return [call for call in self.exchange.calls if call.request is None] if self.exchange else []


def read_development(root: Path, request_id: str) -> RecordedRequest:
    """Return a request that `svc dev` recorded. Raises `CapsuleError` if it has no record of it."""
    reader = open_reader(timeline_path(root))
    if reader is not None:
        with closing(reader):
            exchange = reader.exchange(request_id)
            entries = reader.after(0, RecordFilter(request_id=request_id), MAX_RECORDS).entries
            if entries:
                recorded = RecordedRequest(request_id, entries, exchange)
                last = max(entry["cursor"] for entry in entries)
                rebuilt = [
                    name
                    for name in recorded.resources
                    if any(
                        entry["kind"] == "platform" and entry["body"].startswith(BUILT)
                        for entry in reader.after(last, RecordFilter(resource=name, text=BUILT)).entries
                    )
                ]
                return replace(recorded, rebuilt=rebuilt)
    raise unknown_request(request_id)


def unknown_request(request_id: str) -> CapsuleError:
    return CapsuleError(
        f"request {request_id} is not recorded",
        'List the ids of requests: svc logs --sql "select time, request_id, method, target from requests".',
        code="not-found",
    )


def collect(
    project: Project,
    recorded: RecordedRequest,
    artifacts: Mapping[str, PackedArtifact],
    redactor: Redactor,
    folder: Path,
    *,
    include_artifacts: bool,
    include_rows: bool,
) -> tuple[dict[str, Any], dict[str, bytes | Path]]:
    """Return the head and the members of a capsule, redacted.

    `folder` is for temporary files. Raises `SvcError`.
    """
    secrets = development_values(project.root, os.environ)
    for resource in project.resources.values():
        for name in resource.secrets:
            redactor.add_value(name, secrets.get(name, ""))
        for name, value in resource.env.items():
            if redactor.is_secret(name):
                redactor.add_value(name, value)
    head = _head(project, recorded)
    notes = [
        f"resource {name} was built again after the request: its artifact may differ"
        for name in recorded.rebuilt
    ]
    document = _document(recorded, notes)
    for side in ("request", "response"):
        document[side] = _redacted_message(document[side], redactor)
    document["records"] = redactor.document(document["records"])
    statements = redactor.document(list(_statements(project.root / DATA_DIR, recorded)))
    calls = recorded.exchange.calls if recorded.exchange is not None else ()
    fetches = [fetch_document(call, redactor) for call in calls if call.request is not None]
    snapshot = _snapshot(project, recorded, redactor, folder) if include_rows else None
    if snapshot is not None:
        counts = {"undone": snapshot.undone, "failed": len(snapshot.lacks)}
        head["tables"] = {"names": list(snapshot.names), **counts}
        notes += [f"rows can differ from those before the request: {each}" for each in snapshot.lacks]
        if not all(call.complete for call in recorded.statements):
            notes.append("some SQL requests or answers were too long to be recorded")
    # From here on, the values of all credentials are known.
    redactor.forget_unused(_texts(document, [statements, fetches], project.root))
    for fetch in fetches:
        sent, path = document["response"], fetch["request"]["url"].removeprefix(FILES_URL)
        if sent and path.startswith("/") and fetch["response"]["status"] in _WITH_FILE:
            fetch["response"]["body"], fetch["complete"] = sent["body"], not sent["truncated"]
            if sent["truncated"]:
                name, stored = redactor.text(unquote(path.partition("files/")[2])), b64decode(sent["body"])
                notes.append(f"the file {name} is not in the capsule, only its first {size(len(stored))}")
    for side in ("request", "response"):
        if document[side] is not None:
            message = redactor.message(document[side], redactor.data)
            document[side] = _replaced(message, _MESSAGE_VALUES, redactor)
    document["records"] = [_replaced(record, _RECORD_VALUES, redactor) for record in document["records"]]
    if snapshot is not None:
        redact_values(folder / TABLES, redactor.values(), redactor.count)
    members: dict[str, bytes | Path] = {
        MANIFEST: _manifest(project.root, redactor),
        EXCHANGE: _json(document),
        FETCHES: _json([redacted_fetch(fetch, redactor) for fetch in fetches]),
        STATEMENTS: _json([_replaced(call, _STATEMENT_VALUES, redactor) for call in statements]),
    }
    if snapshot is not None:
        members[TABLES] = folder / TABLES
    head["artifacts"] = {
        name: {"kind": each.kind, "sha256": each.digest, "included": include_artifacts}
        for name, each in artifacts.items()
    }
    if include_artifacts:
        for name, artifact in artifacts.items():
            notes += [
                f"the artifact of {name} contains the value of {secret}"
                for secret in redactor.names_in(artifact.files.values())
            ]
            members |= {f"artifacts/{name}/{file}": part for file, part in artifact.files.items()}
    head["redacted"] = [[*place, count] for place, count in sorted(redactor.hits.items())]
    head["notes"] = notes
    return head, members


def _head(project: Project, recorded: RecordedRequest) -> dict[str, Any]:
    return {
        "svc": version(),
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "project": project.name,
        "request_id": recorded.request_id,
        "deployed": recorded.deployed,
        "recorded": recorded.exchange is not None,
    }


def _document(recorded: RecordedRequest, notes: list[str]) -> dict[str, Any]:
    if recorded.exchange is not None:
        fields = recorded.exchange.request.headers
        absent = [name for name, value in fields if value == REDACTED_VALUE]
        absent += restored(recorded.exchange, None, frozenset())[1]
        if absent := sorted(set(absent)):
            notes.append(
                f"a replay sends no {', '.join(absent)}: svc dev has the values of recent requests in memory"
                " until it ends; make the capsule while it runs"
            )
        return exchange_document(recorded.exchange, recorded.entries)
    root = next((span for span in recorded.spans if span["root"]), None)
    if root is None:
        raise unknown_request(recorded.request_id)
    notes.append("header fields, bodies, SQL parameters and rows were not recorded")
    exchange = RecordedExchange(
        request_id=root["request_id"],
        time_ns=parse_utc(root["time"]),
        method=root["method"],
        scheme="http",
        authority="",
        target=root["target"],
        request=RecordedMessage((), b"", root["bytes_in"], ended=root["method"] in ("GET", "HEAD")),
        status=root["status"],
        response=RecordedMessage((), b"", root["bytes_out"], ended=False),
    )
    return exchange_document(exchange, recorded.entries)


def _redacted_message(message: dict[str, Any] | None, redactor: Redactor) -> dict[str, Any] | None:
    if message is None:
        return None
    fields = redactor.headers(message["headers"])
    kind = next((value for name, value in fields if name == "content-type"), "")
    message = {**message, "headers": fields}
    if "target" in message:
        message["target"] = redactor.target(message["target"])
    return redactor.message(message, lambda body: redactor.body(body, kind))


def _texts(document: dict[str, Any], statements: Sequence[Any], root: Path) -> str:
    """Return all texts in which values of credentials are replaced."""
    messages = (document[side] for side in ("request", "response") if document[side] is not None)
    bodies = [b64decode(message["body"]).decode(errors="replace") for message in messages]
    manifest = read_manifest(root / MANIFEST).decode(errors="replace")
    return "\n".join([dump_verbatim([document, statements]), *bodies, manifest])


def _replaced(document: dict[str, Any], names: Sequence[str], redactor: Redactor) -> dict[str, Any]:
    return document | {name: redactor.everywhere(document[name]) for name in names if name in document}


def _manifest(root: Path, redactor: Redactor) -> bytes:
    text = redactor.data(read_manifest(root / MANIFEST))
    try:
        parse_manifest(root, text)
    except ManifestError as error:
        raise CapsuleError(
            f"{MANIFEST} would be invalid without the credentials in it: {error.problems[0].message}",
            "A value is also a name there: see the names above, and pass --no-redact NAME.",
        ) from error
    return text


def _statements(data: Path, recorded: RecordedRequest) -> Iterator[dict[str, Any]]:
    """Yield the calls to the tables, with the rows that each changed."""
    calls = recorded.statements
    changes = rows_written(data, recorded.request_id) if calls else []
    for call, following in zip(calls, [*calls[1:], None], strict=False):
        end = math.inf if following is None else following.time_ns
        yield {
            "span_id": call.span_id,
            "time": format_utc(call.time_ns),
            "request": _parsed(call.sent),
            "response": _parsed(call.received),
            "changes": [
                {"operation": each.operation.upper(), "table": each.table, "key": each.key}
                | {"before": each.before, "after": each.after}
                for each in changes
                if call.time_ns <= each.write.time_ns < end
            ],
            "complete": call.complete,
        }


def _parsed(text: str) -> Any:
    try:
        return load_verbatim(text)
    except (ValueError, RecursionError):
        return text


def _snapshot(
    project: Project, recorded: RecordedRequest, redactor: Redactor, folder: Path
) -> Snapshot | None:
    """Copy the tables before the request, redacted by the names of columns; None without any."""
    if recorded.exchange is None:
        return None
    path = folder / TABLES
    began = min((call.time_ns for call in recorded.statements), default=recorded.exchange.time_ns)
    sql = (sql for call in recorded.statements for sql, _ in statements_of(_parsed(call.sent)))
    snapshot = copy_before(project.root / DATA_DIR, path, sql, began, MAX_TABLES_BYTES)
    if snapshot is not None:
        redact_columns(path, redactor.is_secret, lambda name, value: redactor.replace("column", name, value))
    return snapshot


def _json(document: Any) -> bytes:
    text = dump_verbatim(document, indent=1).encode("utf-8", "replace")
    if len(text) > MAX_DOCUMENT_BYTES:
        raise CapsuleError(
            f"the records and calls of the request have more than {MAX_DOCUMENT_BYTES >> 20} MiB",
            "Make a capsule of a request with fewer records.",
            code="too-large",
        )
    return text


def read_request(root: Path, project: str, request_id: str, service: bool | None) -> RecordedRequest:
    """Return a recorded request; `service` is the choice of the user. Raises `SvcError`."""
    credentials = resolve_target(root, service)
    request_id = complete_id(root, credentials, request_id)
    if credentials is None:
        recorded = read_development(root, request_id)
        client = find_running(root / DATA_DIR, "/v1/projects")
        if client is None or recorded.exchange is None:
            return recorded
        with client:
            try:
                found = client.call("GET", f"/v1/projects/{project}/requests/{request_id}/original")
            except SvcError:  # The Console shows a stopped project, and has no credentials.
                return recorded
        if not found["head"]:
            return recorded
        bodies = (b64decode(found[side]) for side in ("request", "response"))
        return replace(recorded, exchange=decode_exchange(request_id, found["head"], *bodies))
    pages = remote_pages(credentials, project, {"request": request_id})
    entries = [entry for page in pages for entry in page.entries]
    if not entries:
        raise unknown_request(request_id)
    return RecordedRequest(request_id, entries, deployed=True)
