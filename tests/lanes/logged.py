"""Runs of a guest with the telemetry Door open, and the records it sent."""

import inspect
from collections.abc import Awaitable, Callable
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
from tests.support.waiting import until


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


def in_time(ask: Callable[[], Logged], first: int = 0) -> Logged:
    """Repeat a run until its records, from that at `first` on, were made within 10 ms.

    Guests send a batch early if it is 20 ms old, which it may be on a busy machine.
    """
    runs = list[Logged]()

    def is_in_time() -> bool:
        runs.append(ask())
        entries = runs[-1].entries
        return entries[-1].time_ns - entries[first].time_ns < 10_000_000

    until(is_in_time)
    return runs[-1]


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
