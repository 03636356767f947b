"""Members of a fleet as one node observes them: heartbeats, keepers, state of their tables.

Heartbeats are not stored. A node is present while its last heartbeat is recent on the observer's own clock.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.bucket.protocols import BucketError
from engine.control.schemas import StrictModel
from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.kv import StreamKeyValue
from engine.fleet.node import FleetNode, NodeAddress, cluster_address
from engine.fleet.questions import Document, Questions
from engine.fleet.registry import MEMBERS, Member, removed
from engine.fleet.stream import JetStream
from engine.fleet.tables_log import STREAM
from engine.timeline.record import format_utc

HEARTBEAT_SECONDS = 0.5
PRESENT_SECONDS = 2.0
PROBE_SECONDS = 1.0
ASK_SECONDS = 3.0
"""Longer than a node measures its copies."""
TABLES = "tables"
"""Kind of the question how the tables of a `project` ("": of all) are: `lag_ms` and `troubles`."""


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


async def check_membership(folder: Path, node: FleetNode, namespace: str) -> None:
    """Raise `FleetError` if another node that runs knows that this one was removed.

    Its nats-server must not join the cluster again.
    """
    others = [address for address in node.nodes if address != node.address]
    servers = tuple(f"tls://{other}" for other in await listening(others))
    if not servers:
        return
    with suppress(BucketError):  # Without a majority the service waits for the others, and checks again.
        connection = await NatsConnection.open(replace(cluster_address(folder, node), servers=servers))
        try:
            records = JetStream(connection, "svc-records", f"{namespace}.fleet")
            value = await StreamKeyValue(records, PROBE_SECONDS).get(MEMBERS + node.node)
        finally:
            await connection.aclose()
        if value is None:
            raise removed(node.node)


async def listening(addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Return the addresses at which a nats-server listens."""

    async def listens(address: NodeAddress) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                _, writer = await asyncio.open_connection(address.host, address.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    found = await asyncio.gather(*map(listens, addresses))
    return [address for address, answers in zip(addresses, found, strict=True) if answers]


class CopyOut(StrictModel):
    """A copy of a project's tables that is not up to date, since when, and why."""

    project: str
    since: str
    problem: str


class NodeOut(StrictModel):
    """A node. `role`: keeper (runs a nats-server) or agent. `skew_seconds`: its clock minus this one's.

    `seen` is the time of its last sign of life. `lag_ms`: how far its copy of the tables is behind their log;
    null if it is unknown, as before the first use. `leads`: the node orders the writes to tables.
    `starting`: it does not serve yet. `draining`: it takes no requests. `copies`: what is wrong with its
    tables.
    """

    id: str
    address: str
    role: str
    version: str
    present: bool
    starting: bool
    draining: bool
    this: bool
    skew_seconds: float | None
    seen: str | None
    lag_ms: int | None
    leads: bool
    copies: list[CopyOut]


class FleetOut(StrictModel):
    """The fleet. `healthy`: this node's nats-server is in contact with a majority.

    `quorum`: a majority of the keepers answers this node, so that writes are stored.
    """

    fleet: str
    node: str
    serving: bool
    healthy: bool
    quorum: bool
    needed: int
    nodes: list[NodeOut]


class Tables(NamedTuple):
    """The leader of the tables' log, empty without a majority, and the answers of nodes to `TABLES`."""

    leader: str = ""
    answers: Mapping[str, Document] = {}


FindTables = Callable[[Collection[str], str], Awaitable[Tables]]
"""Asks nodes about the tables of a project, or of "" about all tables."""


def observe(member: Member, this: str, presence: Presence | None, tables: Tables) -> NodeOut:
    """Return a member as the node `this` observes it. `presence` is `None` before the fleet serves."""
    beat = presence.last(member.id) if presence is not None else None
    present = member.id in presence.present() if presence is not None else member.id == this
    seen_ns = time.time_ns() - int((time.monotonic() - beat.arrived) * 1e9) if beat is not None else None
    answer = tables.answers.get(member.id, {})
    return NodeOut(
        id=member.id,
        address=str(member.address),
        role=member.role,
        version=beat.content["version"] if beat is not None else member.version,
        present=present,
        starting=presence is not None and member.id in presence.starting(),
        draining=present and beat is not None and bool(beat.content.get("draining")),
        this=member.id == this,
        skew_seconds=round(beat.skew_ns / 1e9, 1) if beat is not None and present else None,
        seen=format_utc(seen_ns) if seen_ns is not None else None,
        lag_ms=answer.get("lag_ms"),
        leads=member.id == tables.leader,
        copies=[CopyOut(**copy) for copy in answer.get("troubles", ())],
    )


async def find_tables(
    connection: NatsConnection, questions: Questions, nodes: Collection[str], project: str
) -> Tables:
    """See `FindTables`."""

    async def ask(node: str) -> Document:
        try:
            return await questions.ask(node, TABLES, {"project": project}, ASK_SECONDS)
        except SvcError:
            return {}

    leader, tables = await asyncio.gather(_leader(connection), asyncio.gather(*map(ask, nodes)))
    return Tables(leader, dict(zip(nodes, tables, strict=True)))


async def _leader(connection: NatsConnection) -> str:
    """Return the leader of the tables' log, or an empty string: without a majority there is none."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await JetStream(connection, STREAM, "").leader()
    except (BucketError, TimeoutError):
        return ""
