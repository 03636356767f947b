"""Nodes of a fleet as folders, whose timelines are read as in a fleet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.control.node_answers import NodeAnswers
from engine.peers import Document, NodeAway
from engine.timeline.database import TIMELINE_FILE
from engine.timeline.record import LineRecord, Record
from engine.timeline.store import Retention, TimelineStore

NOW_MS = 1_790_000_000_000


async def no_lag(project: str) -> int | None:
    return None


class Folders:
    """Three nodes with a timeline each. Those in `down` do not answer."""

    node = "n1"

    def __init__(self, root: Path) -> None:
        self.down: set[str] = set()
        self.asked = 0
        self.names = ["n1", "n2", "n3"]
        self._root = root
        self._answers = {
            node: NodeAnswers(lambda _, node=node: self.path(node).parent, no_lag)
            for node in ("n1", "n2", "n3", "n4")
        }

    async def nodes(self) -> Sequence[str]:
        return list(self.names)

    def last_seen(self, node: str) -> int | None:
        return NOW_MS * 1_000_000

    async def ask(self, node: str, subject: str, project: str, question: Document) -> dict[str, Any]:
        self.asked += 1
        if node in self.down:
            raise NodeAway("does not answer")
        answer = await self._answers[node](project, {**question, "subject": subject})
        if node in self.down:  # It was killed before its answer arrived.
            raise NodeAway("does not answer")
        return answer

    def path(self, node: str) -> Path:
        return self._root / node / TIMELINE_FILE

    def write(self, node: str, *records: Record, written_ms: int, retention: Retention | None = None) -> None:
        self.path(node).parent.mkdir(exist_ok=True)
        store = TimelineStore(self.path(node), retention)
        store.append(records, written_ms * 1_000_000)
        if retention is not None:
            store.trim(written_ms * 1_000_000)
        store.close()

    def lines(self, node: str, *texts: str, ms: int = NOW_MS) -> None:
        records = [
            LineRecord(ms * 1_000_000 + at, "", "web", "stdout", text) for at, text in enumerate(texts)
        ]
        self.write(node, *records, written_ms=ms)
