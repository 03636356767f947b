"""Calls from one node of a fleet to another, each sent once.

Nodes authenticate to the cluster with the certificates and keys of the fleet.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from engine.bucket.errors import BucketError
from engine.cancellation import cancel
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import Unavailable

CALL_SECONDS = 20.0
CHECK_SECONDS = 0.5
"""How often the caller checks whether the other node is present."""
_NAME = b"\n"
_ANSWER, _FAILED = b"+", b"!"
_log = logging.getLogger("svc.fleet")

Receive = Callable[[str, bytes], Awaitable[bytes]]


class NodeCalls:
    """Calls with a name and a content."""

    def __init__(
        self, connection: NatsConnection, namespace: str, node: str, present: Callable[[], set[str]]
    ) -> None:
        self._connection, self._node, self._present = connection, node, present
        self._subject = f"svc-calls.{namespace}"

    def is_present(self, node: str) -> bool:
        """Return whether a node runs, as far as this one observes."""
        return node in self._present()

    async def call(self, node: str, name: str, content: bytes, seconds: float = CALL_SECONDS) -> bytes | None:
        """Return the answer of a node; None if it does not run.

        Raises `Unavailable` if no answer came: the other node may have taken the call.
        """
        sent = name.encode() + _NAME + content
        calling = asyncio.ensure_future(self._connection.call(f"{self._subject}.{node}", sent, seconds))
        try:
            while not calling.done():
                await asyncio.wait([calling], timeout=CHECK_SECONDS)
                if not calling.done() and not self.is_present(node):
                    raise Unavailable(f"a call to the node {node}", CHECK_SECONDS)
            answer = calling.result()
        finally:
            await cancel([calling])
        if answer is not None and answer[:1] == _FAILED:
            raise Unavailable(f"a call to the node {node}", seconds)
        return answer and answer[1:]

    @asynccontextmanager
    async def serve(self, receive: Receive) -> AsyncGenerator[None, None]:
        """Answer the calls of other nodes within the context."""
        tasks: set[asyncio.Task[None]] = set()

        async def answer(message: Any) -> None:
            name, _, content = message.data.partition(_NAME)
            try:
                reply = _ANSWER + await receive(name.decode(), content)
            except Exception:
                _log.exception("a call of another node failed")
                reply = _FAILED
            with suppress(BucketError):
                await self._connection.publish(message.reply, reply)

        async def on_message(message: Any) -> None:
            task = asyncio.create_task(answer(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        subscription = await self._connection.subscribe(f"{self._subject}.{self._node}", on_message)
        try:
            yield
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()
            await cancel(tasks)
