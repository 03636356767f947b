"""Logs of all nodes of a fleet as one stream.

Existing records are merged by the time at which they ended. New ones are merged as they arrive; the
order of each node is preserved. At most one page of each node waits, so a slow client or node cannot fill
memory.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import accumulate
from typing import Any

from engine.cancellation import cancel
from engine.peers import Document, NodeAway, Peers
from engine.timeline.fleet_cursor import FleetCursor
from engine.timeline.json_format import format_utc
from engine.timeline.node_part import MAX_WAIT_SECONDS
from engine.timeline.record_filter import RecordFilter

KEEPALIVE_SECONDS = 1.0
"""Maximum time without a document of a following stream."""
RETRY_SECONDS = 0.25
MEMBERS_SECONDS = 2.0
"""How often a following stream looks for nodes that joined or were removed."""
MARGIN_MS = 5000
"""Difference of clocks that a fleet tolerates."""
_BATCH = 64
_SUBJECT = "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherQuery:
    """Selects records of a project. `after` is a cursor of the fleet, or one of this node's timeline."""

    project: str
    record_filter: RecordFilter
    since_ns: int | None = None
    until_ns: int | None = None
    after: FleetCursor | int | None = None
    tail: int | None = None
    follow: bool = False


@dataclass(slots=True)
class _NodePages:
    """A node's part. `position` is `None` until it is known; then records start at `start_ms`."""

    node: str
    start_ms: int
    position: int | None = None
    _: KW_ONLY
    last: int = 0
    cursors: Sequence[int] | None = None
    """Cursors of existing records to read, or None for all up to `last`."""
    page: deque[tuple[int, dict[str, Any]]] = field(default_factory=deque)
    """Records that were read and not sent, and their ends. The latter ascend."""
    end_ns: int = 0
    """End of the last record that was read."""
    dropped: int = 0
    next: int = 0
    """Position after the page."""
    read: bool = True
    """Whether all existing records were read."""


class LogGathering:
    """One stream. Use `documents` once, then `aclose`."""

    def __init__(self, peers: Peers, query: GatherQuery) -> None:
        self._peers, self._query = peers, query
        self._parts: dict[str, _NodePages] = {}
        self._missing: dict[str, Document] = {}
        self._reported: Mapping[str, Document] = {}
        self._start_ms = self._first_ms()
        self._arrived, self._consumed = asyncio.Event(), asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _first_ms(self) -> int:
        """Return when the records of nodes begin that this stream does not know yet."""
        query = self._query
        if isinstance(query.after, FleetCursor):
            return query.after.start_ms
        if query.since_ns is not None:
            return query.since_ns // 1_000_000
        return 0 if query.tail is None else time.time_ns() // 1_000_000 - MARGIN_MS

    async def documents(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield records with a member `node`, and documents about the stream.

        docs/reference/logs-json.md describes them.
        """
        await self._begin()
        if self._query.follow:
            yield [self._position()]
        if self._missing:
            yield self._changes()
        async for batch in self._existing():
            yield batch
        if changes := self._changes():
            yield changes
        if self._query.follow:
            yield [self._position()]
            async for batch in self._new():
                yield batch

    async def aclose(self) -> None:
        """Stop asking nodes."""
        await cancel(list(self._tasks.values()))

    def _position(self) -> dict[str, Any]:
        known = {node: part.position for node, part in self._parts.items() if part.position is not None}
        return {"position": str(FleetCursor(self._start_ms, known))}

    def _changes(self) -> list[dict[str, Any]]:
        """Return the nodes that do not answer, if they are others than those that were sent."""
        if self._missing.keys() == self._reported.keys():
            return []
        self._reported = dict(self._missing)
        return [{"missing": [self._missing[node] for node in sorted(self._missing)]}]

    async def _ask(self, part: _NodePages, **question: Any) -> dict[str, Any] | None:
        """Return the answer of a node, or None if it is missing."""
        question = {"filter": self._query.record_filter.to_json(), **question}
        try:
            answer = await self._peers.ask(part.node, _SUBJECT, self._query.project, question)
        except NodeAway as error:
            if part.node not in self._missing:
                last_seen = self._peers.last_seen(part.node)
                self._missing[part.node] = {
                    "node": part.node,
                    "since": format_utc(last_seen) if last_seen is not None else None,
                    "reason": error.message,
                }
                self._arrived.set()
            return None
        if self._missing.pop(part.node, None) is not None:
            self._arrived.set()
        return answer

    # -- existing records --------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Find the range of each node, and from where the last records are those that were asked for."""
        query, own = self._query, self._peers.node
        nodes = list(await self._peers.nodes())
        if isinstance(query.after, int):
            part = self._parts[own] = _NodePages(own, self._start_ms)
            bounds = await self._bounds(part, query.after)
            if bounds is not None:
                now_ms = time.time_ns() // 1_000_000
                self._start_ms = max(self._start_ms, bounds["after_ms"] or now_ms)
            nodes = [node for node in nodes if node != own]
        await asyncio.gather(*(self._begin_part(node) for node in nodes))
        if query.tail is not None:
            await self._begin_tail(query.tail)

    async def _begin_part(self, node: str) -> None:
        after = self._query.after
        position = after.positions.get(node) if isinstance(after, FleetCursor) else None
        part = self._parts[node] = _NodePages(node, self._start_ms, position)
        await self._bounds(part, position)

    async def _bounds(self, part: _NodePages, after: int | None) -> dict[str, Any] | None:
        query = self._query
        since = part.start_ms if after is None else None
        if query.since_ns is not None:
            since = max(since or 0, query.since_ns // 1_000_000)
        elif query.tail is not None and query.after is None:
            since = None
        until = query.until_ns // 1_000_000 if query.until_ns is not None else None
        bounds = await self._ask(part, read="bounds", after=after, since_ms=since, until_ms=until)
        if bounds is not None:
            part.position, part.last, part.read = bounds["after"], bounds["last"], False
        return bounds

    async def _begin_tail(self, count: int) -> None:
        """Choose the last records of all nodes."""
        parts = [part for part in self._parts.values() if not part.read]

        async def ask(part: _NodePages, read: str, count: int) -> dict[str, Any] | None:
            return await self._ask(part, read=read, count=count, after=part.position, last=part.last)

        answers = await asyncio.gather(*(ask(part, "times", count) for part in parts))
        ends = [
            (end_ns, part.node)
            for part, answer in zip(parts, answers, strict=True)
            for end_ns in (answer or {"times": ()})["times"]
        ]
        chosen = [node for _, node in heapq.nlargest(count, ends)]
        counts = [chosen.count(part.node) for part in parts]
        answers = await asyncio.gather(
            *(ask(part, "tail", count) for part, count in zip(parts, counts, strict=True))
        )
        for part, answer in zip(parts, answers, strict=True):
            part.cursors = list(accumulate(answer["cursors"])) if answer is not None else []
            part.position = part.cursors[0] - 1 if part.cursors else part.last

    async def _existing(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the records up to the ends of the timelines at the start of the stream."""
        while True:
            empty = [part for part in self._parts.values() if not part.page and not part.read]
            await asyncio.gather(*(self._read_existing(part) for part in empty))
            batch = [{"dropped": part.dropped, "node": part.node} for part in empty if part.dropped]
            for part in empty:
                part.dropped = 0
            ready = [part for part in self._parts.values() if part.page]
            if not ready and all(part.read for part in self._parts.values()):
                if batch:
                    yield batch
                return
            while ready and len(batch) < _BATCH:
                part = min(ready, key=lambda part: (part.page[0][0], part.node))
                batch.append(self._take(part))
                if not part.page and not part.read:
                    break
                ready = [part for part in ready if part.page]
            if batch:
                yield batch

    def _take(self, part: _NodePages) -> dict[str, Any]:
        document = part.page.popleft()[1]
        part.position = part.next if part.read and not part.page else document["cursor"]
        return document

    async def _read_existing(self, part: _NodePages) -> None:
        """Fill the page of a node with existing records."""
        assert part.position is not None
        if part.cursors is not None:
            chunk, rest = part.cursors[:_BATCH], part.cursors[_BATCH:]
            answer = await self._ask(part, read="records", cursors=chunk) if chunk else {"records": []}
            if answer is None:
                part.read = True
                return
            # A long answer has the first records only.
            documents = answer["records"] or [{"cursor": chunk[-1] if chunk else part.last}]
            part.cursors = [*(cursor for cursor in chunk if cursor > documents[-1]["cursor"]), *rest]
            part.read = not part.cursors
            part.next = part.last if part.read else documents[-1]["cursor"]
        else:
            answer = await self._ask(part, read="page", after=part.position)
            if answer is None:
                part.read = True
                return
            part.dropped, part.next = answer["dropped"], min(answer["position"], part.last)
            part.read = answer["position"] >= part.last
        self._fill(part, answer, part.last)
        if not part.page:
            part.position = part.next

    def _fill(self, part: _NodePages, answer: Document, last: int | None = None) -> None:
        """Put the records of an answer, up to a cursor, into the page of their node."""
        for end_ns, document in zip(answer.get("times", ()), answer["records"], strict=True):
            if last is None or document["cursor"] <= last:
                part.end_ns = max(part.end_ns, end_ns)
                part.page.append((part.end_ns, {**document, "node": part.node}))

    # -- new records -------------------------------------------------------------------------------------

    async def _new(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield new records until the stream is closed."""
        loop = asyncio.get_running_loop()
        looked = sent = 0.0
        while True:
            if loop.time() - looked >= MEMBERS_SECONDS:
                looked = loop.time()
                await self._update_nodes()
            self._arrived.clear()
            batch = [*self._changes(), *self._take_new()]
            if batch:
                batch.append(self._position())
            if not batch and loop.time() - sent >= KEEPALIVE_SECONDS:
                batch = [self._position()]
            if batch:
                sent = loop.time()
                yield batch
                continue
            try:
                async with asyncio.timeout(KEEPALIVE_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                continue

    def _take_new(self) -> list[dict[str, Any]]:
        """Return the records that have arrived."""
        ready = [part for part in self._parts.values() if part.page or part.dropped or part.next]
        batch = [{"dropped": part.dropped, "node": part.node} for part in ready if part.dropped]
        # `merge` preserves the order of each page.
        pages = [[(end_ns, part.node, document) for end_ns, document in part.page] for part in ready]
        batch += [document for *_, document in heapq.merge(*pages, key=lambda each: each[:2])]
        for part in ready:
            part.position = part.next
            part.page.clear()
            part.dropped = part.next = 0
        if ready:
            self._consumed.set()
            self._consumed = asyncio.Event()
        return batch

    async def _update_nodes(self) -> None:
        """Follow the nodes that are part of the fleet now."""
        nodes = set(await self._peers.nodes())
        for node in nodes - self._tasks.keys():
            part = self._parts.setdefault(node, _NodePages(node, self._start_ms))
            part.next = 0
            self._tasks[node] = asyncio.create_task(self._follow(part))
        for node in self._tasks.keys() - nodes:
            await cancel([self._tasks.pop(node)])
            self._parts.pop(node)
            self._missing.pop(node, None)

    async def _follow(self, part: _NodePages) -> None:
        """Fill the page of a node again and again, each time after it was taken."""
        while True:
            answer = await self._ask(
                part, read="page", after=part.position, since_ms=part.start_ms, wait=MAX_WAIT_SECONDS
            )
            if answer is None:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._fill(part, answer)
            part.dropped, part.next = answer["dropped"], answer["position"]
            if not part.page and not part.dropped:
                part.position, part.next = part.next, 0
                continue
            consumed = self._consumed
            self._arrived.set()
            await consumed.wait()
