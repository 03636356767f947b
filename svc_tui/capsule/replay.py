"""Replay of a capsule in a temporary folder, without network and secrets."""

import json
import re
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from doors.tables.files.importer import load as load_tables
from doors.tables.sqlite.owner import open_for_writing
from doors.tables.sqlite.replay_time import ReplayTime
from engine.artifact import Artifact
from engine.deploy.serving import BuildResult, Doors, Publication, ServingTable, VersionFactory
from engine.door import DoorRequest, DoorResponse, problem_response
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.door_delivery import file_url
from engine.gateway.replay import Replayer
from engine.gateway.routes import internal_resource
from engine.manifest import MANIFEST
from engine.manifest.load import parse
from engine.manifest.model import Project, host_label
from engine.timeline.bus import TimelineBus
from engine.timeline.record import document as record_document
from engine.timeline.record import encode, parse_utc
from engine.timeline.recording import RecordedExchange, Redaction, exchange_document, recorded_request
from engine.wasm.execution.runner import Runner
from engine.wasm.outbound.door_calls import DoorBinding
from engine.wasm.outbound.http import RecordedOutbound, RecordedResponse
from svc_tui.capsule.container import EXCHANGE, FETCHES, STATEMENTS, TABLES, Capsule, CapsuleError
from svc_tui.capsule.redaction import Redactor, recorded_responses
from svc_tui.composition import doors
from svc_tui.terminal import stderr

DOMAIN = "localhost"
MAX_RUN_SECONDS = 60
"""Maximum duration of a replay, whatever `run_limit_secs` of the capsule is."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MAX_RUN_NS = 10**9
_VARYING = frozenset({"date", "x-request-id"})
"""Header fields that differ between equal responses."""


def is_same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether both responses have the same status, header fields and body, as far as recorded.

    The ids of the two requests count as equal.
    """
    old, new = before["response"], after["response"]
    if old is None or new is None:
        return old is new
    return bool(
        old["status"] == new["status"]
        and (old["truncated"] or (_fields(old) == _fields(new) and _body(before) == _body(after)))
    )


def _fields(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in message["headers"] if name not in _VARYING)


def _body(document: Mapping[str, Any]) -> bytes:
    """Return the body of a response without the id of the request, which error responses contain."""
    return b64decode(document["response"]["body"]).replace(document["request_id"].encode(), b"")


def _manifest_of(capsule: Capsule, root: Path, names: Set[str]) -> Project:
    """Return the project of a capsule with the folder `root`, without egress and secrets, and with less time.

    `names` are the resources that have an artifact. Raises `SvcError`.
    """
    project = parse(root, capsule.bytes(MANIFEST))
    if absent := sorted(names - project.resources.keys()):
        raise CapsuleError(
            f"not a valid capsule: resource {absent[0]} is not in its {MANIFEST}", "Make the capsule again."
        )
    for name in sorted(names):
        for secret in project.resources[name].secrets:
            stderr.warn(f"resource {name}: the secret {secret} has no value in a replay")
    offline = {
        name: replace(each, egress=(), secrets=(), run_limit_secs=min(each.run_limit_secs, MAX_RUN_SECONDS))
        for name, each in project.resources.items()
    }
    return replace(project, resources=offline)


def _statement_time(call: Mapping[str, Any]) -> int:
    """Return when a call read the clock: a time in its results just after its start, else its start."""
    start = parse_utc(call["time"])
    text = json.dumps([call["response"], call["changes"]], ensure_ascii=False)
    first = start // 10**6 * 10**6
    times = list[int]()
    for match in _TIME.findall(text):
        with suppress(ValueError):
            times.append(parse_utc(match))
    return min((each for each in times if first <= each < first + _MAX_RUN_NS), default=start)


async def replay_capsule(
    capsule: Capsule, artifacts: Mapping[str, Artifact], folder: Path, cache: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Serve a capsule in an empty folder, and replay its request there. Raises `SvcError`.

    Return the documents of the recorded request and of its replay.

    `cache` is for compiled components, by their digest. Other servers are not reached: their
    recorded responses answer, and further requests are denied. The clocks of
    the code and of SQL show the times of the recorded request.
    """
    project = _manifest_of(capsule, folder, artifacts.keys())
    document = capsule.documents[EXCHANGE]
    recorded = recorded_request(document)
    data = folder / DATA_DIR
    if capsule.has(TABLES):
        with (capsule.folder / TABLES).open("rb") as source, open_for_writing(data) as connection:
            # A redacted value may break the rule of its column.
            connection.execute("pragma ignore_check_constraints = on")
            for _ in load_tables(connection, source, "db"):
                pass
    timeline = TimelineBus()
    async with AsyncExitStack() as stack:
        calls = [(call["request"], _statement_time(call)) for call in capsule.documents[STATEMENTS]]
        available = doors(replay=ReplayTime(recorded.time_ns, calls))
        opened = Doors(available, project.name, data, timeline)
        stack.push_async_callback(opened.aclose)
        responses = recorded_responses(capsule.documents[FETCHES])
        runner = Runner(cache, outgoing=RecordedOutbound(responses))
        stack.push_async_callback(runner.aclose)
        table = ServingTable(
            VersionFactory(runner, "dev", stderr.progress, lambda _: opened), DOMAIN, front=True
        )
        parts: dict[str, BuildResult] = {
            name: artifacts.get(name)
            or SvcError(f"resource {name} is not in the capsule: it did not handle the request")
            for name in project.resources
        }
        table.activate(await table.prepare(Publication(project, parts)))
        settings = GatewaySettings(dev=True, time_shift_ns=recorded.time_ns - time.time_ns())
        files = {"files": DoorBinding(_SentFiles(responses, recorded.request_id), 0, streams=True)}
        gateway = Gateway(lambda: table.routes, lambda _: timeline, settings, doors_of=lambda _: files)
        internal = internal_resource(recorded.authority)
        if internal is None and table.routes.match_host(recorded.authority) is None:
            recorded = _addressed(recorded, document, project)
        done = await Replayer(gateway, timeline).replay(recorded, project.recorded or frozenset())
    records = [record_document(0, encode(record)) for record in done.records]
    after = exchange_document(done.exchange, records) | {"omitted_headers": list(done.omitted_headers)}
    if document["response"] is not None:
        # That of the replay is redacted by the same names, with other texts.
        response, redaction = document["response"], Redaction(project.recorded or frozenset())
        fields = redaction.headers(response["headers"])
        kind = dict(fields).get("content-type", "")
        response = Redactor().message(response, lambda body: redaction.body(body, kind))
        document["response"] = {**response, "headers": redaction.headers(response["headers"])}
    return document, after


class _SentFiles:
    """The Door `files` for clients in a replay: the files that the host sent. It implements `OpenDoor`."""

    def __init__(self, responses: Sequence[RecordedResponse], request_id: str) -> None:
        """`request_id` is that of the recorded request, which errors contain."""
        self._request_id = request_id.encode()
        self._responses = {(each.method, each.url): each for each in responses}

    def answer(self, request: DoorRequest) -> DoorResponse:
        """Answer as the Door did."""
        url = file_url(request.path)
        response = self._responses.get((request.method, url))
        if response is None:
            detail = f"{unquote(request.path.partition('files/')[2])} is not in the capsule"
            stderr.warn(f"the file {detail}")
            return problem_response(404, "files:not-found", detail)
        if all(name != "content-length" for name, _ in response.headers):
            body = response.body.replace(self._request_id, request.caller.request_id.encode())
            return DoorResponse(response.status, body, response.headers)
        return DoorResponse(response.status, headers=response.headers, stream=_chunks(response.body))

    async def aclose(self) -> None:
        """Return at once: no file is open."""


async def _chunks(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _addressed(recorded: RecordedExchange, document: Mapping[str, Any], project: Project) -> RecordedExchange:
    """Return the request with the address that its first resource has here."""
    spans = (record for record in document["records"] if record["kind"] == "request" and record["root"])
    resource = next((span["resource"] for span in spans), "")
    authority = f"{host_label(project.name, resource)}.{DOMAIN}"
    headers = [field for field in recorded.request.headers if field[0] != "host"]
    request = replace(recorded.request, headers=(*headers, ("host", authority)))
    return replace(recorded, authority=authority, request=request)
