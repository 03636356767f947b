"""Answers to the questions of other nodes of the fleet about the data of a project on this one."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from engine.control.project_threads import ProjectThreads
from engine.errors import SvcError
from engine.manifest.schema import is_name
from engine.peers import Document
from engine.timeline import node_part
from engine.timeline.database import TIMELINE_FILE
from engine.usage import gather
from engine.usage.store import USAGE_FILE

MAX_WAITING = 512
"""Maximum questions about a project that wait for a thread."""


class NodeAnswers:
    """Answers questions. Its calls are `engine.peers.Answer`."""

    def __init__(
        self, data_dir: Callable[[str], Path], lag_ms: Callable[[str], Awaitable[int | None]]
    ) -> None:
        """`data_dir` returns the data folder of a project, `lag_ms` that of its tables ("": of all)."""
        self._data_dir, self._lag_ms = data_dir, lag_ms
        self._threads = ProjectThreads("fleet-answers", max_waiting=MAX_WAITING)

    async def __call__(self, project: str, question: Document) -> dict[str, Any]:
        """Answer a question. Raises `SvcError`."""
        if question["subject"] == "tables":
            return {"lag_ms": await self._lag_ms(project)}
        if not is_name(project):
            raise SvcError(f'invalid project name "{project[:80]}"')
        folder = self._data_dir(project)
        run = self._threads.of(str(folder))
        match question["subject"]:
            case "logs":
                return await node_part.answer(run, folder / TIMELINE_FILE, question)
            case "usage":
                return dict(await run(partial(gather.answer, folder / USAGE_FILE, question)))
        raise SvcError("has another version of svc", "Install the same version on all nodes.")
