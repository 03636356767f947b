"""An open telemetry Door that is called as the engine calls it."""

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

from doors.telemetry.door import TelemetryDoor
from engine.door import Caller, DoorContext, DoorRequest, DoorResponse, LogEntry
from engine.measurement import MeasurementBatch
from engine.trace import RequestTrace

NOW_NS = 1_800_000_000 * 10**9
CALLER = Caller("api", "req-1", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
GOLDEN = Path(__file__).with_name("golden")


class OpenTelemetry:
    """The telemetry Door of one project, and the entries and measurements that it passed on."""

    def __init__(self, folder: Path) -> None:
        self.logged: list[LogEntry] = []
        self.measured: list[MeasurementBatch] = []
        place = DoorContext("shop", folder, self.logged.append, self.measured.append)
        self.door = TelemetryDoor(lambda: NOW_NS).open(place)

    async def send(
        self,
        body: bytes,
        kind: str = "application/json",
        *,
        path: str = "/v1/logs",
        method: str = "POST",
        packed: str = "",
        caller: Caller = CALLER,
        trace: RequestTrace | None = None,
    ) -> DoorResponse:
        headers = [("content-type", kind.encode())] if kind else []
        if packed:
            headers.append(("content-encoding", packed.encode()))
        answer = self.door.answer(
            DoorRequest(method, path, query="", headers=tuple(headers), body=body, caller=caller, trace=trace)
        )
        return await answer if inspect.isawaitable(answer) else answer

    def post(self, body: bytes, kind: str = "application/json", **options: Any) -> DoorResponse:
        return asyncio.run(self.send(body, kind, **options))

    def post_json(self, document: Any) -> DoorResponse:
        return self.post(json.dumps(document).encode())

    def record(self, record: Any, **around: Any) -> LogEntry:
        """Send one record as JSON and return its log entry."""
        assert self.post_json(logs(record, **around)).status == 200
        return self.logged[-1]


def logs(*records: Any, resource: Any = None, scope: Any = None) -> dict[str, Any]:
    """Return an ExportLogsServiceRequest as JSON has it."""
    scopes = {"logRecords": list(records)} | ({"scope": scope} if scope else {})
    return {"resourceLogs": [{"scopeLogs": [scopes]} | ({"resource": resource} if resource else {})]}


def attributes(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def length_prefixed(data: bytes) -> bytes:
    """Return the data behind its length, as protobuf has fields of bytes."""
    size, encoded = len(data), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*encoded, size]) + data
