"""Usage of a project on all nodes of a fleet."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.peers import Document, NodeAway, Peers
from engine.timeline.json_format import format_utc
from engine.usage.aggregate import Key, UsageCount
from engine.usage.store import UsageStore

PAGE_ROWS = 10_000
_SUBJECT = "usage"


@dataclass(frozen=True, slots=True)
class FleetUsage:
    """The sums over all nodes that answered, and those that did not: `node`, `since`, `reason`."""

    counts: dict[Key, UsageCount]
    missing: list[Document]


def answer(path: Path, question: Document, limit: int = PAGE_ROWS) -> dict[str, Any]:
    """Answer a question about the usage in a file: the next rows after a minute and name."""
    if not path.exists():
        return {"rows": []}
    minute, resource = question["after"]
    with closing(UsageStore(path)) as store:
        return {"rows": store.page((minute, resource), limit)}


async def gather_usage(peers: Peers, project: str, first: int) -> FleetUsage:
    """Return the usage from a minute on."""
    parts: list[dict[Key, UsageCount]] = []
    missing: list[Document] = []

    async def add(node: str) -> None:
        counts: dict[Key, UsageCount] = {}
        after: Key | None = (first, "")
        try:
            while after is not None:
                rows = (await peers.ask(node, _SUBJECT, project, {"after": after}))["rows"]
                counts |= {(minute, resource): UsageCount.of(numbers) for minute, resource, *numbers in rows}
                after = (rows[-1][0], rows[-1][1]) if len(rows) == PAGE_ROWS else None
        except NodeAway as error:
            last_seen = peers.last_seen(node)
            since = format_utc(last_seen) if last_seen is not None else None
            missing.append({"node": node, "since": since, "reason": error.message})
            return
        parts.append(counts)

    await asyncio.gather(*(add(node) for node in await peers.nodes()))
    counts = await asyncio.to_thread(_sum_of, parts)
    return FleetUsage(counts, sorted(missing, key=lambda each: str(each["node"])))


def _sum_of(parts: Iterable[Mapping[Key, UsageCount]]) -> dict[Key, UsageCount]:
    """Return the sums in the order of minutes and names."""
    counts: dict[Key, UsageCount] = {}
    for part in parts:
        for key, count in part.items():
            counts[key] = counts.get(key, UsageCount()) + count
    return dict(sorted(counts.items()))
