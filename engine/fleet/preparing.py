"""Preparation of a deployment on all present nodes, before one of them activates it.

Requests and answers are not stored. A request is repeated until each present node has answered.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from engine.bucket.errors import BucketError
from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import FleetError

PREPARE_SECONDS = 60.0
REPEAT_SECONDS = 2.0

Prepare = Callable[[str, str], Awaitable[None]]
"""Unpacks and compiles a deployment of a project on this node. Raises `SvcError`."""


class Preparation:
    """Asks other nodes to prepare deployments, and answers theirs. Use on one event loop."""

    def __init__(
        self, connection: NatsConnection, namespace: str, node: str, present: Callable[[], set[str]]
    ) -> None:
        """`present` returns the nodes that are present."""
        self._connection, self._node, self._present = connection, node, present
        self._subject = f"svc-prepare.{namespace}"
        self._running: dict[str, asyncio.Task[None]] = {}

    async def answer(self, prepare: Prepare) -> None:
        """Answer the requests of other nodes until the connection closes. Raises `ConnectionInterrupted`."""

        async def receive(message: Any) -> None:
            request = json.loads(message.data)
            key = message.reply
            if request["node"] != self._node and key not in self._running:
                task = asyncio.create_task(self._prepare(prepare, request, message.reply))
                self._running[key] = task
                task.add_done_callback(lambda _: self._running.pop(key))

        await self._connection.subscribe(self._subject, receive)

    async def _prepare(self, prepare: Prepare, request: dict[str, str], reply: str) -> None:
        answer = {"node": self._node, "error": ""}
        try:
            await prepare(request["project"], request["deployment"])
        except SvcError as error:
            answer["error"] = error.public_message
        except Exception as error:
            answer["error"] = f"internal error: {type(error).__name__}"
        try:
            await self._connection.publish(reply, json.dumps(answer).encode())
        except BucketError:  # The request will be repeated.
            return

    async def everywhere(self, project: str, deployment: str) -> None:
        """Wait until all present nodes can serve a deployment.

        Raises `FleetError`, which names the nodes that cannot or do not answer in time.
        """
        inbox = self._connection.new_inbox()
        answers = await self._connection.subscribe(inbox)
        request = {"node": self._node, "project": project, "deployment": deployment}
        answered, sent, end = {self._node}, 0.0, time.monotonic() + PREPARE_SECONDS
        try:
            while waiting := self._present() - answered:
                if time.monotonic() > end:
                    raise FleetError(
                        f"{', '.join(sorted(waiting))} did not prepare the deployment within"
                        f" {PREPARE_SECONDS:g} s; nothing was changed",
                        "Check these nodes with `svc fleet status`, then deploy again.",
                    )
                if time.monotonic() - sent > REPEAT_SECONDS:
                    sent = time.monotonic()
                    await self._connection.publish(self._subject, json.dumps(request).encode(), reply=inbox)
                try:
                    answer = json.loads((await answers.next_msg(timeout=REPEAT_SECONDS / 4)).data)
                except TimeoutError:
                    continue
                if answer["error"]:
                    raise FleetError(
                        f"the node {answer['node']} cannot serve the deployment: {answer['error']};"
                        " nothing was changed",
                        "Correct it on that node, then deploy again.",
                    )
                answered.add(answer["node"])
        finally:
            await answers.unsubscribe()
