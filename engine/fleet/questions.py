"""Questions between the nodes of a fleet: JSON objects, repeated until they are answered, and never stored.

Nodes authenticate to the cluster with the certificates and keys of the fleet. The rights of users are checked
on the node that they ask.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from engine.errors import SvcError
from engine.fleet.connection import PAUSE_SECONDS, TRY_SECONDS
from engine.fleet.errors import FleetError, Unavailable
from engine.fleet.node_calls import NodeCalls

PATIENCE_SECONDS = 6.0
"""How long a node that is present may take to answer."""
_log = logging.getLogger("svc.fleet")

Document = Mapping[str, Any]
"""A JSON object."""
Answer = Callable[[Document], Awaitable[dict[str, Any]]]
"""Answers a question that may be repeated. Raises `SvcError`."""


class QuestionRefused(FleetError):
    """Another node answered a question with this error."""


class Questions:
    """Asks other nodes, and answers them. Use on one event loop."""

    def __init__(self, calls: NodeCalls) -> None:
        self._calls = calls
        self._answers: dict[str, Answer] = {}

    def answer(self, kind: str, answer: Answer) -> None:
        """Answer the questions of a kind from now on."""
        self._answers[kind] = answer

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None, None]:
        """Answer other nodes within the context. Raises `ConnectionInterrupted` and `BucketClosed`."""
        async with self._calls.serve(self._receive):
            yield

    async def _receive(self, kind: str, content: bytes) -> bytes:
        try:
            if (answer := self._answers.get(kind)) is None:
                raise FleetError("it starts, or has another version of svc")
            document: Document = {"answer": await answer(json.loads(content))}
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
        content, end = _encode(question), time.monotonic() + seconds
        while True:
            try:
                answer = await self._calls.call(node, kind, content, min(seconds, TRY_SECONDS))
            except Unavailable:
                answer = None
            if answer is not None:
                document = json.loads(answer)
                if "failure" in document:
                    raise QuestionRefused(document["failure"])
                return dict(document["answer"])
            if time.monotonic() > end or not self._calls.is_present(node):
                raise Unavailable(f"a question to the node {node}", seconds)
            await asyncio.sleep(PAUSE_SECONDS)


def _encode(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
