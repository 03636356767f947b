"""The Doors that answer clients, and files that the host sends for a guest."""

import asyncio
from pathlib import Path

import pytest

from doors.files.door import FilesDoor
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.door_delivery import public_door
from engine.gateway.routes import RouteTable
from engine.http.exchange import MemoryExchange, Request
from engine.manifest.model import Project, Resource
from engine.timeline.bus import TimelineBus
from engine.timeline.record import Record, RequestRecord
from engine.timeline.recording import Recording
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.outbound.door_calls import DoorBinding
from svc_tui import composition
from tests.doors.files.files_door import Files
from tests.engine.gateway.serving import Scripted, report

DOORS = {
    door.name: DoorBinding(object(), door.max_body, door.streams)  # type: ignore[arg-type]
    for door in composition.doors()
}


@pytest.mark.parametrize("path", ["/.svc/files/a", "/.svc/files/", "/.svc/files"])
def test_files_answer_clients(path: str) -> None:
    assert public_door(DOORS, path) is DOORS["files"]


@pytest.mark.parametrize(
    "path",
    [
        "/.svc/tables/v1/query",
        "/.svc/telemetry/v1/logs",
        "/.svc/crypto/v1/hmac",
        "/.svc/",
        "/files/a",
        "/.svc/x",
    ],
)
def test_no_other_door_answers_clients(path: str) -> None:
    assert public_door(DOORS, path) is None


def test_file_that_a_guest_names_is_a_call_of_the_request(tmp_path: Path) -> None:
    files, timeline = Files(tmp_path), TimelineBus()
    records: list[Record] = []
    recordings: list[Recording] = []
    timeline.subscribe(records.append)
    timeline.recordings.subscribe(recordings.append)

    async def named(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(200, [(b"x-svc-file", b"a%20%C3%BC/n\xf6 n")])
        await request.exchange.send_body(b"", end=True)
        return report()

    async def test() -> None:
        project = Project("shop", Path("/"), {"web": Resource("web", "js", Path("/"), public=True)})
        table = RouteTable.build(project, {"web": Scripted(named)}, domain="localhost")
        doors = {"files": DoorBinding(files.door, FilesDoor.max_body, streams=True)}
        settings = GatewaySettings(record=True)
        gateway = Gateway(lambda: table, lambda _: timeline, settings, doors_of=lambda _: doors)
        headers = [(b"host", b"web--shop.localhost")]
        request = Request(
            method="GET", scheme="http", path="/", query=b"", headers=headers, id="", resource=None
        )
        await gateway(MemoryExchange(request, b""))

    asyncio.run(test())
    (span,) = [each for each in records if isinstance(each, RequestRecord)]
    assert [(call.kind, call.name, call.status) for call in span.calls] == [
        ("door", "GET files/v1/files/a%20%C3%BC/n\xf6 n", 404)
    ]
    ((_, capture),) = recordings[0].captures
    assert capture.request == ("GET", "http://files.svc.internal/v1/files/a%20%C3%BC/n%C3%B6%20n", [])
    assert capture.response is not None and capture.response[0] == 404 and b"not-found" in capture.received


@pytest.mark.parametrize(
    ("status", "field", "expected", "size"),
    [
        (200, (b"range", b"bytes=1-2"), 206, b"2"),
        (404, (b"range", b"bytes=1-2"), 404, b"5"),
        (200, (b"if-none-match", b"*"), 304, None),
        (404, (b"if-none-match", b"*"), 404, b"5"),
        (404, (b"if-match", b'"other"'), 404, b"5"),
    ],
)
def test_client_gets_ranges_of_files_that_the_guest_sends_with_200_only(
    tmp_path: Path, status: int, field: tuple[bytes, bytes], expected: int, size: bytes | None
) -> None:
    files = Files(tmp_path)

    async def named(request: GuestRequest) -> RunReport:
        await request.exchange.send_head(status, [(b"x-svc-file", b"a")])
        await request.exchange.send_body(b"", end=True)
        return report()

    async def test() -> MemoryExchange:
        assert (await files.put("a", b"hello")).status == 201
        project = Project("shop", Path("/"), {"web": Resource("web", "js", Path("/"), public=True)})
        table = RouteTable.build(project, {"web": Scripted(named)}, domain="localhost")
        doors = {"files": DoorBinding(files.door, FilesDoor.max_body, streams=True)}
        timeline = TimelineBus()
        gateway = Gateway(lambda: table, lambda _: timeline, GatewaySettings(), doors_of=lambda _: doors)
        headers = [(b"host", b"web--shop.localhost"), field]
        exchange = MemoryExchange(
            Request(method="GET", scheme="http", path="/", query=b"", headers=headers, id="", resource=None),
            b"",
        )
        await gateway(exchange)
        return exchange

    exchange = asyncio.run(test())
    assert (exchange.status, dict(exchange.fields).get(b"content-length")) == (expected, size)
