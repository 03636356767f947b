"""Questions between the nodes of a fleet: JSON objects, repeated until they are answered, and never stored.

Nodes authenticate to the cluster with the certificates and keys of the fleet. The rights of users are checked
on the node that they ask.
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from engine.bucket.protocols import BucketError
from engine.cancellation import cancel, spawn
from engine.errors import SvcError
from engine.fleet.connection import PAUSE_SECONDS, TRY_SECONDS, NatsConnection
from engine.fleet.errors import FleetError, Unavailable

CALL_SECONDS = 20.0
CHECK_SECONDS = 0.5
"""How often the caller checks whether the other node is present."""
PATIENCE_SECONDS = 6.0
"""How long a node that is present may take to answer."""
PREPARE_SECONDS = 60.0
_PREPARE = "prepare"
_NAME = b"\n"
_ANSWER, _FAILED = b"+", b"!"
_log = logging.getLogger("svc.fleet")

Receive = Callable[[str, bytes], Awaitable[bytes]]
Document = Mapping[str, Any]
"""A JSON object."""
Answer = Callable[[Document], Awaitable[dict[str, Any]]]
"""Answers a question. Raises `SvcError`."""
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
        """Answer the questions of a kind from now on."""
        self._answers[kind] = answer

    async def _receive(self, kind: str, content: bytes) -> bytes:
        """Answer a question once, however often it is repeated meanwhile."""
        question = json.loads(content)
        id_ = question.pop("id", None) or secrets.token_hex(8)  # An earlier svc sends none.
        if (task := self._asked.get(id_)) is None:
            task = self._asked[id_] = asyncio.create_task(self._find_answer(kind, question))
            task.add_done_callback(lambda _: self._asked.pop(id_))
        return await asyncio.shield(task)

    async def _find_answer(self, kind: str, question: Document) -> bytes:
        try:
            if (answer := self._answers.get(kind)) is None:
                raise FleetError("it starts, or has another version of svc")
            document: Document = {"answer": await answer(question)}
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

    def prepare_with(self, prepare: Prepare) -> None:
        """Prepare deployments for other nodes from now on."""

        async def answer(question: Document) -> dict[str, Any]:
            await prepare(question["project"], question["deployment"])
            return {}

        self.answer(_PREPARE, answer)

    async def prepare_everywhere(self, project: str, deployment: str) -> None:
        """Wait until all present nodes can serve a deployment, before one of them activates it.

        Raises `FleetError`, which names the nodes that cannot or do not answer in time.
        """
        question = {"project": project, "deployment": deployment}
        asked, late, end = {self._node}, list[str](), time.monotonic() + PREPARE_SECONDS

        async def ask(node: str) -> None:
            try:
                await self.ask(node, _PREPARE, question, end - time.monotonic())
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
