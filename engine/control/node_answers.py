"""Answers to the questions of other nodes of the fleet about the data of a project on this one."""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from engine.control.project_threads import ProjectThreads
from engine.errors import SvcError
from engine.manifest.schema import is_name
from engine.peers import Document
from engine.timeline.copies import read_page
from engine.timeline.database import TIMELINE_FILE
from engine.usage.store import USAGE_FILE, UsageStore

MAX_WAITING = 512
"""Maximum questions about a project that wait for a thread."""
USAGE_ROWS = 10_000


class NodeAnswers:
    """Answers questions. Its calls are `engine.peers.Answer`."""

    def __init__(
        self, data_dir: Callable[[str], Path], tables: Callable[[str], Awaitable[dict[str, Any]]]
    ) -> None:
        """`data_dir` returns the data folder of a project, `tables` the state of its tables ("": of all)."""
        self._data_dir, self._tables = data_dir, tables
        self._threads = ProjectThreads("fleet-answers", max_waiting=MAX_WAITING)

    async def __call__(self, project: str, question: Document) -> dict[str, Any]:
        """Answer a question. Raises `SvcError`."""
        if question["subject"] == "tables":
            return await self._tables(project)
        if not is_name(project):
            raise SvcError(f'invalid project name "{project[:80]}"')
        folder, after, node = self._data_dir(project), question.get("after", 0), question.get("of", "")
        run = self._threads.of(str(folder))
        match question["subject"]:
            case "records":
                page = await run(partial(read_page, folder / TIMELINE_FILE, node, after))
                return {**asdict(page), "content": b64encode(page.content).decode()}
            case "usage":
                return {"rows": await run(partial(_usage, folder / USAGE_FILE, node, after))}
        raise SvcError("has another version of svc", "Install the same version on all nodes.")


def _usage(path: Path, node: str, after: Any) -> Any:
    if not path.exists():
        return []
    with closing(UsageStore(path)) as store:
        return store.page_of(node, (after[0], after[1]), USAGE_ROWS)
