"""Preparation of a deployment on all present nodes, before one of them activates it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from engine.fleet.errors import FleetError, Unavailable
from engine.fleet.questions import Document, QuestionRefused, Questions

PREPARE_SECONDS = 60.0
_KIND = "prepare"

Prepare = Callable[[str, str], Awaitable[None]]
"""Unpacks and compiles a deployment of a project on this node. Raises `SvcError`."""


class Preparation:
    """Asks other nodes to prepare deployments, and answers theirs. Use on one event loop."""

    def __init__(
        self, questions: Questions, node: str, present: Callable[[], set[str]], prepare: Prepare
    ) -> None:
        """`present` returns the nodes that are present."""
        self._questions, self._node, self._present, self._prepare = questions, node, present, prepare
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        questions.answer(_KIND, self._answer)

    async def _answer(self, question: Document) -> dict[str, Any]:
        """Prepare a deployment once, however often it is asked for meanwhile."""
        key = question["project"], question["deployment"]
        if key not in self._running:
            task = self._running[key] = asyncio.ensure_future(self._prepare(*key))
            task.add_done_callback(lambda _: self._running.pop(key))
        await asyncio.shield(self._running[key])
        return {}

    async def everywhere(self, project: str, deployment: str) -> None:
        """Wait until all present nodes can serve a deployment.

        Raises `FleetError`, which names the nodes that cannot or do not answer in time.
        """
        question = {"project": project, "deployment": deployment}
        asked, late, end = {self._node}, list[str](), time.monotonic() + PREPARE_SECONDS

        async def ask(node: str) -> None:
            try:
                await self._questions.ask(node, _KIND, question, end - time.monotonic())
            except Unavailable:
                if node in self._present():
                    late.append(node)
            except QuestionRefused as error:
                raise FleetError(
                    f"the node {node} cannot serve the deployment: {error.message}; nothing was changed",
                    "Correct it on that node, then deploy again.",
                ) from error

        while nodes := self._present() - asked:
            asked |= nodes
            await asyncio.gather(*map(ask, nodes))
        if late:
            raise FleetError(
                f"{', '.join(sorted(late))} did not prepare the deployment within"
                f" {PREPARE_SECONDS:g} s; nothing was changed",
                "Check these nodes with `svc fleet status`, then deploy again.",
            )
