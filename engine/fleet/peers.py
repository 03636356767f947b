"""Questions between the nodes of a fleet, for data that each stores for itself: logs and usage.

A question goes to one node, which sends one answer. Neither is stored. Nodes authenticate to the cluster with
the certificates and keys of the fleet. The rights of users are checked on the node that they ask.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from engine.bucket.errors import BucketClosed, BucketError
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.fleet.connection import PAUSE_SECONDS, NatsConnection, Patience
from engine.fleet.members import PRESENT_SECONDS, Presence
from engine.peers import Answer, Document, NodeAway

PATIENCE_SECONDS = 6.0
"""How long a node that is present may take to answer."""
ONE_TRY_SECONDS = 0.001
"""Patience for one try: the connection repeats a request until then."""
MEMBERS_SECONDS = 2.0
MAX_QUESTIONS = 512
"""Maximum questions that a node answers at once."""
_log = logging.getLogger("svc.fleet")


class FleetPeers:
    """See `engine.peers.Peers`. Use on one event loop."""

    def __init__(
        self,
        connection: NatsConnection,
        namespace: str,
        presence: Presence,
        members: Callable[[], Awaitable[Sequence[str]]],
        answer: Answer,
    ) -> None:
        """`members` returns the ids of all nodes, `answer` answers questions to this one."""
        self.node = presence.node
        self._connection, self._presence, self._members = connection, presence, members
        self._subject = f"svc-ask.{namespace}"
        self._answer = answer
        self._known: Sequence[str] = (self.node,)
        self._loaded = asyncio.Event()
        self._started = time.monotonic()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Answer the questions of other nodes until `aclose`. Raises `ConnectionInterrupted`."""

        async def receive(message: Any) -> None:
            if len(self._tasks) < MAX_QUESTIONS:
                self._spawn(self._receive(message.data, message.reply))

        await self._connection.subscribe(f"{self._subject}.{self.node}", receive)
        self._spawn(self._watch_members())

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop answering."""
        await cancel(list(self._tasks))

    async def _watch_members(self) -> None:
        while True:
            try:
                self._known = tuple(await self._members())
                self._loaded.set()
            except BucketError as error:  # The nodes known before remain.
                _log.debug("the nodes of the fleet cannot be read: %s", error.message)
            await asyncio.sleep(MEMBERS_SECONDS)

    async def _receive(self, content: bytes, reply: str) -> None:
        document: dict[str, Any]
        try:
            question = json.loads(content)
            answer = await self._answer(question["project"], question)
            document = {"answer": answer}
        except SvcError as error:
            document = {"failure": error.public_message}
        except Exception:
            _log.exception("a question of another node failed")
            document = {"failure": "internal error; the log of the node has the details"}
        try:
            await self._connection.publish(reply, _encode(document))
        except BucketError:  # The question will be repeated.
            return

    async def nodes(self) -> Sequence[str]:
        """See the protocol."""
        try:
            async with asyncio.timeout(MEMBERS_SECONDS):
                await self._loaded.wait()
        except TimeoutError:
            return sorted({*self._known, *self._presence.present()})
        return self._known

    def last_seen(self, node: str) -> int | None:
        """See the protocol."""
        beat = self._presence.last(node)
        return time.time_ns() - int((time.monotonic() - beat.arrived) * 1e9) if beat is not None else None

    async def ask(self, node: str, subject: str, project: str, question: Document) -> dict[str, Any]:
        """See the protocol. Raises `NodeAway`."""
        if node == self.node:
            try:
                return await self._answer(project, {**question, "subject": subject})
            except SvcError as error:
                raise NodeAway(error.public_message) from error
        content = _encode({**question, "subject": subject, "project": project})
        end = time.monotonic() + PATIENCE_SECONDS
        while self._may_answer(node) and time.monotonic() < end:
            try:
                answer = await self._connection.request(
                    f"{self._subject}.{node}", content, Patience("a question", ONE_TRY_SECONDS)
                )
            except BucketClosed:
                break
            except BucketError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if "failure" in answer:
                raise NodeAway(answer["failure"])
            return dict(answer["answer"])
        raise NodeAway("does not answer")

    def _may_answer(self, node: str) -> bool:
        """Return whether a node is present. The first heartbeats arrive soon after the start."""
        return node in self._presence.present() or time.monotonic() < self._started + PRESENT_SECONDS


def _encode(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
