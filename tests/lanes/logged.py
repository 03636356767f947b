"""Runs of a guest with the telemetry Door open, and the records it sent."""

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doors.telemetry.door import TelemetryDoor
from engine.artifact import ComponentArtifact
from engine.door import DOMAIN, DoorContext, DoorRequest, DoorResponse, LogEntry
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from engine.wasm.outbound.door_calls import DoorBinding
from tests.support.guest_client import Answer, Client


@dataclass
class Logged:
    """Response of a run, the records it sent, and the requests that carried them."""

    answer: Answer
    entries: list[LogEntry] = field(default_factory=list)
    requests: list[DoorRequest] = field(default_factory=list)
    answers: list[DoorResponse] = field(default_factory=list)

    @property
    def bodies(self) -> list[str]:
        return [entry.body for entry in self.entries]


class _Watched:
    """The Door, and its requests."""

    def __init__(self, folder: Path) -> None:
        self.entries: list[LogEntry] = []
        self.requests: list[DoorRequest] = []
        self.answers: list[DoorResponse] = []
        self._door = TelemetryDoor().open(DoorContext("shop", folder, self.entries.append))

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        self.requests.append(request)
        answer = self._door.answer(request)
        if inspect.isawaitable(answer):
            return self._later(answer)
        self.answers.append(answer)
        return answer

    async def _later(self, answer: Awaitable[DoorResponse]) -> DoorResponse:
        response = await answer
        self.answers.append(response)
        return response

    async def aclose(self) -> None:
        await self._door.aclose()


async def run(
    cache: Path, resource: Resource, artifact: ComponentArtifact, target: str, **client: Any
) -> Logged:
    """Send one request to a guest on a real engine, with the real Door."""
    runner = Runner(cache)
    door = _Watched(cache)
    environment = dict.fromkeys(TelemetryDoor.variables, f"http://telemetry.{DOMAIN}")
    doors = {"telemetry": DoorBinding(door, TelemetryDoor.max_body)}
    try:
        guest = await runner.guest(
            resource, artifact, environment, fast=True, report=lambda line: None, doors=doors
        )
        answer = await Client(**client).call(guest, target)
    finally:
        await runner.aclose()
        await door.aclose()
    return Logged(answer, door.entries, door.requests, door.answers)
