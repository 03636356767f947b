"""Logs of several nodes as one stream. The nodes are folders, whose timelines are read as in a fleet."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.peers import Document
from engine.timeline.fleet_cursor import FleetCursor
from engine.timeline.gather import GatherQuery, LogGathering
from engine.timeline.record import LineRecord
from engine.timeline.record_filter import RecordFilter
from engine.timeline.store import Retention
from tests.engine.timeline.folders import NOW_MS, Folders
from tests.engine.timeline.records import REQUEST
from tests.support.examples import examples

SECOND_MS = 1000
ALL = RecordFilter()


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def query(record_filter: RecordFilter = ALL, **options: Any) -> GatherQuery:
    return GatherQuery(project="shop", record_filter=record_filter, **options)


async def gathered(folders: Folders, query: GatherQuery) -> list[dict[str, Any]]:
    gathering = LogGathering(folders, query)
    try:
        return [document async for batch in gathering.documents() for document in batch]
    finally:
        await gathering.aclose()


def texts(documents: Sequence[Document]) -> list[str]:
    return [
        each["body"] if each["kind"] != "request" else each["target"] for each in documents if "kind" in each
    ]


def read(folders: Folders, **options: Any) -> list[str]:
    return texts(asyncio.run(gathered(folders, query(**options))))


@asynccontextmanager
async def stream(
    folders: Folders, **options: Any
) -> AsyncIterator[Callable[[Callable[[list[dict[str, Any]]], bool]], Any]]:
    """Follow the logs. Yields a function that reads until a condition on all documents holds."""
    gathering = LogGathering(folders, query(follow=True, **options))
    documents = gathering.documents()
    seen: list[dict[str, Any]] = []

    async def until(holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        while not holds(seen):
            seen.extend(await anext(documents))
        return seen

    try:
        yield until
    finally:
        await documents.aclose()  # type: ignore[attr-defined]
        await gathering.aclose()


def has(*expected: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda documents: set(expected) <= set(texts(documents))


def test_existing_records_are_merged_by_time(folders: Folders) -> None:
    for at in range(150):
        folders.lines(f"n{at % 3 + 1}", f"{at}", ms=NOW_MS + at)
    expected = [str(at) for at in range(150)]
    assert read(folders) == expected
    assert read(folders, tail=7) == expected[-7:]
    assert read(folders, since_ns=(NOW_MS + 140) * 1_000_000) == expected[140:]
    assert read(folders, until_ns=(NOW_MS + 10) * 1_000_000) == expected[:10]
    assert read(folders, tail=3, until_ns=(NOW_MS + 10) * 1_000_000) == expected[7:10]
    assert read(folders, record_filter=RecordFilter(text="149")) == ["149"]


def test_tail_has_all_spans_of_its_requests(folders: Folders) -> None:
    for at, node in enumerate(("n1", "n2", "n1")):
        root = replace(REQUEST, request_id=f"id{at}", target=f"/{at}", time_ns=NOW_MS * 10**6)
        inner = replace(root, target=f"/inner-{at}", root=False)
        folders.write(node, inner, root, written_ms=NOW_MS + at)
    assert read(folders, tail=2) == ["/inner-1", "/1", "/inner-2", "/2"]


def test_time_that_a_guest_reports_does_not_delay_records(folders: Folders) -> None:
    future = LineRecord((NOW_MS + 10**9) * 10**6, "", "web", "stdout", "future")
    folders.write("n1", future, written_ms=NOW_MS)
    folders.lines("n2", "second", ms=NOW_MS + 10)
    folders.lines("n1", "third", ms=NOW_MS + 20)
    assert read(folders) == ["future", "second", "third"]


def test_cursor_of_one_node_starts_the_others_at_the_time_of_its_record(folders: Folders) -> None:
    for at in range(6):
        folders.lines(f"n{at % 2 + 1}", f"{at}", ms=NOW_MS + at)
    documents = asyncio.run(gathered(folders, query()))
    cursor = next(each["cursor"] for each in documents if each["body"] == "2")
    assert read(folders, after=cursor) == ["3", "4", "5"]
    assert read(folders, after=FleetCursor(NOW_MS + 4, {"n2": documents[3]["cursor"]})) == ["4", "5"]


def test_missing_node_is_named_and_its_records_follow_when_it_is_back(folders: Folders) -> None:
    folders.lines("n1", "old")
    folders.lines("n2", "lost", ms=NOW_MS - 60 * SECOND_MS)
    folders.down.add("n2")

    async def main() -> list[dict[str, Any]]:
        async with stream(folders, since_ns=(NOW_MS - SECOND_MS) * 1_000_000) as until:
            await until(lambda documents: any("missing" in each for each in documents))
            folders.lines("n2", "new", ms=NOW_MS + 1)
            folders.down.clear()
            await until(has("new"))
            return list(await until(lambda documents: documents[-1].get("position")))

    documents = asyncio.run(main())
    missing = [each["missing"] for each in documents if "missing" in each]
    assert missing == [
        [{"node": "n2", "since": "2026-09-21T14:13:20.000000000Z", "reason": "does not answer"}],
        [],
    ]
    assert texts(documents) == ["old", "new"]


def test_node_that_joins_is_followed_and_one_that_is_removed_is_not_missed(folders: Folders) -> None:
    async def main() -> list[dict[str, Any]]:
        async with stream(folders, tail=0) as until:
            await until(lambda documents: len(documents) > 2)
            folders.names = ["n1", "n4"]
            folders.lines("n4", "joined", ms=time.time_ns() // 10**6)
            await until(has("joined"))
            folders.down.add("n2")
            folders.lines("n1", "last", ms=NOW_MS + 10**9)
            return list(await until(has("last")))

    assert [each for each in asyncio.run(main()) if "missing" in each] == []


def test_records_that_were_removed_are_counted_for_their_node(folders: Folders) -> None:
    folders.lines("n2", "first", ms=NOW_MS - 10**6)
    documents = asyncio.run(gathered(folders, query()))
    week = Retention(max_age_seconds=60)
    lines = [LineRecord(NOW_MS * 10**6, "", "web", "stdout", str(at)) for at in range(3)]
    folders.write("n2", *lines[:2], written_ms=NOW_MS - 10**6)
    folders.write("n2", lines[2], written_ms=NOW_MS, retention=week)
    after = FleetCursor(0, {"n2": documents[0]["cursor"]})
    found = asyncio.run(gathered(folders, query(after=after)))
    assert [each for each in found if "dropped" in each] == [{"dropped": 2, "node": "n2"}]
    assert texts(found) == ["2"]


def test_client_that_does_not_read_stops_the_reading_of_nodes(folders: Folders) -> None:
    async def main() -> int:
        async with stream(folders, tail=0) as until:
            await until(lambda documents: len(documents) > 1)
            for _ in range(20):
                folders.lines("n2", *["x" * 1000] * 100, ms=NOW_MS + 10**9)
            await asyncio.sleep(0.5)
            before = folders.asked
            await asyncio.sleep(2.5)
            return folders.asked - before

    # The others are asked once a second; the one with a full page is not.
    assert asyncio.run(main()) <= 8


def test_stream_that_is_interrupted_loses_and_repeats_nothing(folders: Folders, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    written: dict[str, list[str]] = {node: [] for node in folders.names}
    received: list[Document] = []
    total = examples(150)

    def write() -> None:
        node = chance.choice(folders.names)
        some = [f"{node}-{len(written[node]) + at}" for at in range(chance.randrange(1, 4))]
        written[node] += some
        folders.lines(node, *some, ms=NOW_MS + chance.randrange(1000))

    async def main() -> None:
        cursor: FleetCursor | None = None
        while sum(map(len, written.values())) > len(received) or len(received) < total:
            gathering = LogGathering(folders, query(follow=True, after=cursor))
            documents = gathering.documents()
            for _ in range(chance.randrange(1, 12)):
                for _ in range(chance.randrange(3)):
                    if len(received) < total:
                        write()
                folders.down = {node for node in folders.names if chance.random() < 0.3}
                if len(received) >= total:
                    folders.down = set()
                for document in await anext(documents):
                    if "position" in document:
                        cursor = FleetCursor.parse(document["position"])
                    elif "kind" in document:
                        received.append(document)
                        assert cursor is not None
                        cursor = cursor.after(document["node"], document["cursor"])
            await documents.aclose()  # type: ignore[attr-defined]
            await gathering.aclose()

    asyncio.run(main())
    for node, expected in written.items():
        assert texts([each for each in received if each["node"] == node]) == expected, f"seed {seed}"
