"""Members of a fleet as one node observes them, by heartbeats, and questions between them.

Neither is stored. A node is present while its last heartbeat is recent on the observer's own clock.
Questions are JSON objects, repeated until they are answered. Nodes authenticate to the cluster with the
certificates and passwords of the fleet. The rights of users are checked on the node that they ask.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.bucket.protocols import BucketError
from engine.cancellation import cancel, spawn
from engine.control.schemas import StrictModel
from engine.errors import SvcError
from engine.fleet.bucket import REMOVED, JetStream, subject_of
from engine.fleet.connection import PAUSE_SECONDS, TRY_SECONDS, NatsConnection
from engine.fleet.errors import FleetError, Unavailable
from engine.fleet.node import FleetNode, NodeAddress, cluster_address
from engine.fleet.registry import MEMBERS, Member, removed
from engine.replication import CALL_SECONDS
from engine.timeline.record import format_utc

CHECK_SECONDS = 0.5
"""How often the caller checks whether the other node is present."""
PATIENCE_SECONDS = 6.0
"""How long a node that is present may take to answer."""
PREPARE_SECONDS = 60.0
PREPARE = "prepare"
_NAME = b"\n"
_ANSWER, _FAILED = b"+", b"!"
_log = logging.getLogger("svc.fleet")

Receive = Callable[[str, bytes], Awaitable[bytes]]
Document = Mapping[str, Any]
Answer = Callable[[Document], Awaitable[dict[str, Any] | None]]
"""Answers a question; None is an empty answer. Raises `SvcError`."""
Prepare = Callable[[str, str], Awaitable[None]]
"""Unpacks and compiles a deployment of a project on this node. Raises `SvcError`."""


class QuestionRefused(FleetError):
    """Another node answered a question with this error."""


class Questions:
    """Calls other nodes once, or asks them until they answer, and answers them. Use on one event loop."""

    def __init__(
        self, connection: NatsConnection, namespace: str, node: str, present: Callable[[], set[str]]
    ) -> None:
        """`present` returns the nodes that are present, as far as this one observes."""
        self._connection, self._node, self.present = connection, node, present
        self._subject = f"svc-calls.{namespace}"
        self._answers: dict[str, Answer] = {}
        self._asked: dict[str, asyncio.Task[bytes]] = {}
        """Questions that are being answered, by their ids."""

    async def call(self, node: str, name: str, content: bytes, seconds: float = CALL_SECONDS) -> bytes | None:
        """Return the answer of a node; None if it does not run.

        Raises `Unavailable` if no answer came: the other node may have taken the call.
        """
        sent = name.encode() + _NAME + content
        calling = asyncio.ensure_future(self._connection.call(f"{self._subject}.{node}", sent, seconds))
        try:
            while not calling.done():
                await asyncio.wait([calling], timeout=CHECK_SECONDS)
                if not calling.done() and node not in self.present():
                    raise Unavailable(f"a call to the node {node}", CHECK_SECONDS)
            answer = calling.result()
        finally:
            await cancel([calling])
        if answer is not None and answer[:1] == _FAILED:
            raise Unavailable(f"a call to the node {node}", seconds)
        return answer and answer[1:]

    @asynccontextmanager
    async def serve(self, receive: Receive | None = None) -> AsyncGenerator[None, None]:
        """Answer calls of other nodes within the context, or questions. Raises as `subscribe` does."""
        tasks: set[asyncio.Task[None]] = set()

        async def answer(message: Any) -> None:
            name, _, content = message.data.partition(_NAME)
            reply = _FAILED
            try:
                reply = _ANSWER + await (receive or self._receive)(name.decode(), content)
            except Exception:
                _log.exception("a call of another node failed")
            finally:  # Also at the end of the context, for which the caller would wait.
                with suppress(BucketError):
                    await self._connection.publish(message.reply, reply)

        async def on_message(message: Any) -> None:
            spawn(tasks, answer(message))

        subscription = await self._connection.subscribe(f"{self._subject}.{self._node}", on_message)
        try:
            yield
        finally:
            with suppress(Exception):
                async with asyncio.timeout(TRY_SECONDS):
                    await subscription.drain()  # type: ignore[no-untyped-call]
            await cancel([*tasks, *self._asked.values()])

    def answer(self, kind: str, answer: Answer) -> None:
        self._answers[kind] = answer

    async def _receive(self, kind: str, content: bytes) -> bytes:
        """Answer a question once, however often it is repeated meanwhile."""
        question = json.loads(content)
        if (task := self._asked.get(id_ := question.pop("id"))) is None:
            task = self._asked[id_] = asyncio.create_task(self._find_answer(kind, question))
            task.add_done_callback(lambda _: self._asked.pop(id_))
        return await asyncio.shield(task)

    async def _find_answer(self, kind: str, question: Document) -> bytes:
        try:
            if (answer := self._answers.get(kind)) is None:
                raise FleetError("it starts, or has another version of svc")
            document: Document = {"answer": await answer(question) or {}}
        except SvcError as error:
            document = {"failure": error.public_message}
        except Exception:
            _log.exception("a question of another node failed")
            document = {"failure": "internal error; the log of the node has the details"}
        return _encode(document)

    async def ask(
        self, node: str, kind: str, question: Document, seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        """Return the answer of a node that is present, which may be this one.

        Raises `QuestionRefused` with what the node said, and `Unavailable`.
        """
        content, end = _encode({**question, "id": secrets.token_hex(8)}), time.monotonic() + seconds
        while True:
            try:
                answer = await self.call(node, kind, content, min(seconds, TRY_SECONDS))
            except Unavailable:
                answer = None
            if answer is not None:
                document = json.loads(answer)
                if "failure" in document:
                    raise QuestionRefused(document["failure"])
                return dict(document["answer"])
            if time.monotonic() > end or node not in self.present():
                raise Unavailable(f"a question to the node {node}", seconds)
            await asyncio.sleep(PAUSE_SECONDS)

    async def prepare_everywhere(self, project: str, deployment: str) -> None:
        """Wait until all present nodes can serve a deployment, before one of them activates it.

        Raises `FleetError`, which names the nodes that cannot or do not answer in time.
        """
        question = {"project": project, "deployment": deployment}
        asked, late, end = {self._node}, list[str](), time.monotonic() + PREPARE_SECONDS

        async def ask(node: str) -> None:
            try:
                await self.ask(node, PREPARE, question, end - time.monotonic())
            except Unavailable:
                if node in self.present():
                    late.append(node)
            except QuestionRefused as error:
                raise FleetError(
                    f"the node {node} cannot serve the deployment: {error.message}; nothing was changed",
                    "Correct it on that node, then deploy again.",
                ) from error

        while nodes := self.present() - asked:
            asked |= nodes
            await asyncio.gather(*map(ask, nodes))
        if late:
            raise FleetError(
                f"{', '.join(sorted(late))} did not prepare the deployment within"
                f" {PREPARE_SECONDS:g} s; nothing was changed",
                "Check these nodes with `svc fleet status`, then deploy again.",
            )


def _encode(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")


HEARTBEAT_SECONDS = 0.5
PRESENT_SECONDS = 2.0
PROBE_SECONDS = 1.0
ASK_SECONDS = 3.0
TABLES = "tables"
"""Kind of the question how the tables of a `project` ("": of all) are: `lag_ms` and `troubles`."""


class Presence:
    """Publishes this node's heartbeats, and records those of all nodes."""

    def __init__(self, connection: NatsConnection, namespace: str, node: str) -> None:
        self._connection, self.node = connection, node
        self._subject = f"svc-nodes.{namespace}"
        self._session = secrets.token_hex(4)
        self.last: dict[str, tuple[float, Document]] = {}
        """The last heartbeat of each node: when it arrived (monotonic seconds), and its content."""

    async def run(self, content: Callable[[], Mapping[str, Any]]) -> None:
        """Publish heartbeats until canceled or until the connection closes."""

        async def receive(message: Any) -> None:
            self.last[message.subject.rpartition(".")[2]] = time.monotonic(), json.loads(message.data)

        await self._connection.subscribe(f"{self._subject}.*", receive)
        while True:
            try:
                session = f"{self._session}-{self._connection.reconnects}"
                beat = {**content(), "time_ns": time.time_ns(), "session": session}
                await self._connection.publish(f"{self._subject}.{self.node}", json.dumps(beat).encode())
            except BucketError:  # The next heartbeat may reach another server.
                self._connection.check_open()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def present(self, *, starting: bool = False) -> set[str]:
        """Return the nodes that are present and serve, or those that start."""
        oldest = time.monotonic() - PRESENT_SECONDS
        return {
            node
            for node, (arrived, content) in self.last.items()
            if arrived > oldest and bool(content.get("starting")) is starting
        }


async def check_membership(folder: Path, node: FleetNode, namespace: str) -> None:
    """Raise `FleetError` if another node that runs knows that this one was removed.

    Its nats-server must not join the cluster again.
    """
    others = [address for address in node.nodes if address != node.address]
    servers = tuple(f"tls://{other}" for other in await listening(others))
    if not servers:
        return
    with suppress(BucketError):  # Without a majority the service waits for the others, and checks again.
        address = replace(cluster_address(folder, node), servers=servers)
        async with aclosing(await NatsConnection.open(address)) as connection:
            records = JetStream(connection, "svc-records", f"{namespace}.fleet")
            message = await records.last(subject_of(MEMBERS + node.node), PROBE_SECONDS)
        if message is None or REMOVED in message.headers:
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
    beat = presence.last.get(member.id) if presence is not None else None
    present = member.id in presence.present() if presence is not None else member.id == this
    arrived, content = beat or (0.0, {})
    seen_ns = time.time_ns() - int((time.monotonic() - arrived) * 1e9)
    skew = round((content["time_ns"] - seen_ns) / 1e9, 1) if beat is not None else None
    answer = tables.answers.get(member.id, {})
    return NodeOut(
        id=member.id,
        address=str(member.address),
        role=member.role,
        version=content.get("version", member.version),
        present=present,
        starting=presence is not None and member.id in presence.present(starting=True),
        draining=present and bool(content.get("draining")),
        this=member.id == this,
        skew_seconds=skew if present else None,
        seen=format_utc(seen_ns) if beat is not None else None,
        lag_ms=answer.get("lag_ms") if tables.leader else None,
        leads=member.id == tables.leader,
        copies=[CopyOut(**copy) for copy in answer.get("troubles", ())],
    )
