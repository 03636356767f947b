"""Presence of nodes: each publishes a heartbeat, and all observe those of the others.

Heartbeats are not stored. A node is present while its last heartbeat is recent on the observer's own clock.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.bucket.errors import BucketError
from engine.fleet.connection import NatsConnection

HEARTBEAT_SECONDS = 0.5
PRESENT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of a node: when it arrived (monotonic seconds), its content, and its clock.

    `skew_ns` is how far the node's clock was ahead of this one's.
    """

    arrived: float
    content: Mapping[str, Any]
    skew_ns: int


class Presence:
    """Publishes this node's heartbeats, and records those of all nodes."""

    def __init__(self, connection: NatsConnection, namespace: str, node: str) -> None:
        self._connection, self.node = connection, node
        self._subject = f"svc-nodes.{namespace}"
        self._session = secrets.token_hex(4)
        self._last: dict[str, Heartbeat] = {}
        self._arrived = asyncio.Event()

    async def run(self, content: Callable[[], Mapping[str, Any]]) -> None:
        """Publish heartbeats until canceled or until the connection closes."""

        async def receive(message: Any) -> None:
            document = json.loads(message.data)
            skew = document["time_ns"] - time.time_ns()
            self._last[message.subject.rpartition(".")[2]] = Heartbeat(time.monotonic(), document, skew)
            self._arrived.set()

        subscription = await self._connection.subscribe(f"{self._subject}.*", receive)
        try:
            while True:
                try:
                    session = f"{self._session}-{self._connection.reconnects}"
                    beat = {**content(), "time_ns": time.time_ns(), "session": session}
                    await self._connection.publish(f"{self._subject}.{self.node}", json.dumps(beat).encode())
                except BucketError:  # The next heartbeat may reach another server.
                    self._connection.check_open()
                await asyncio.sleep(HEARTBEAT_SECONDS)
        finally:
            await subscription.unsubscribe()

    def last(self, node: str) -> Heartbeat | None:
        """Return the last heartbeat of a node."""
        return self._last.get(node)

    def present(self) -> set[str]:
        """Return the nodes that are present, without those that start."""
        return self._recent(starting=False)

    def starting(self) -> set[str]:
        """Return the nodes that start and do not serve yet."""
        return self._recent(starting=True)

    def _recent(self, *, starting: bool) -> set[str]:
        oldest = time.monotonic() - PRESENT_SECONDS
        return {
            node
            for node, beat in self._last.items()
            if beat.arrived > oldest and bool(beat.content.get("starting")) is starting
        }

    async def present_with_another(self, seconds: float) -> set[str]:
        """Wait until another node is present, and return all that are. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            while not self.present() - {self.node}:
                self._arrived.clear()
                await self._arrived.wait()
        return self.present()
