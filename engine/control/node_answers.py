"""Answers to the questions of other nodes of the fleet about the data of a project on this one."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from engine.control.project_threads import ProjectThreads
from engine.errors import SvcError
from engine.manifest.schema import is_name
from engine.timeline.copies import read_page
from engine.timeline.database import TIMELINE_FILE
from engine.usage.store import USAGE_FILE, UsageStore

MAX_WAITING = 512
"""Maximum questions about a project that wait for a thread."""
USAGE_ROWS = 10_000


class NodeAnswers:
    """Reads what other nodes ask for. Its methods raise `SvcError`."""

    def __init__(self, data_dir: Callable[[str], Path]) -> None:
        """`data_dir` returns the data folder of a project."""
        self._data_dir = data_dir
        self._threads = ProjectThreads("fleet-answers", max_waiting=MAX_WAITING)

    async def records(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of the records of a node that this one stores."""
        folder = self._folder(question)
        page = await self._threads.of(str(folder))(
            partial(read_page, folder / TIMELINE_FILE, question["of"], question["after"])
        )
        return {**asdict(page), "content": b64encode(page.content).decode()}

    async def usage(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return rows of the usage of a node that this one stores."""
        folder = self._folder(question)
        rows = partial(_usage, folder / USAGE_FILE, question["of"], question["after"])
        return {"rows": await self._threads.of(str(folder))(rows)}

    def _folder(self, question: Mapping[str, Any]) -> Path:
        project = question["project"]
        if not is_name(project):
            raise SvcError(f'invalid project name "{project[:80]}"')
        return self._data_dir(project)


def _usage(path: Path, node: str, after: Any) -> Any:
    if not path.exists():
        return []
    with closing(UsageStore(path)) as store:
        return store.page_of(node, (after[0], after[1]), USAGE_ROWS)
