"""Records and usage that nodes publish and store, on connections to one cluster."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.cancellation import cancel
from engine.fleet.connection import NatsConnection
from engine.fleet.members import Presence, Questions
from engine.fleet.records import FleetRecords, ProjectFiles
from engine.timeline.bus import TimelineBus
from engine.timeline.database import TimelineDatabase
from engine.timeline.query import RecordFilter, TimelineReader, open_reader
from engine.timeline.record import LineRecord, RequestRecord
from engine.timeline.recorder import TimelineRecorder
from engine.usage.store import MINUTE_NS, UsageRecorder, UsageStore
from svc_tui.serve.runtime import answer_reads
from tests.engine.fleet.cluster import Cluster
from tests.engine.timeline.records import REQUEST

PROJECT = "shop"


def failed(error: Exception) -> None:
    raise error


class Node:
    """A node of a fleet with one project."""

    def __init__(self, folder: Path, name: str, namespace: str) -> None:
        self.name, self._namespace = name, namespace
        self._folder = folder / name / PROJECT
        self._tasks: list[asyncio.Task[Any]] = []

    async def start(self, cluster: Cluster) -> None:
        self.connection = await NatsConnection.open(cluster.address)
        self.presence = Presence(self.connection, self._namespace, self.name)
        self._tasks = [asyncio.create_task(self.presence.run(lambda: {}))]
        questions = Questions(self.connection, self._namespace, self.name, self.presence.present)
        answer_reads(questions, lambda project: self._folder)
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(questions.serve())
        self.records = FleetRecords(self.connection, self._namespace, self.presence, questions)
        await self.records.start()
        self.bus = TimelineBus()
        timeline, usage = self._folder / "timeline.db", self._folder / "usage.db"
        publish = partial(self.records.publish, PROJECT)
        self.recorder = TimelineRecorder(
            timeline, self.bus, failed, interval=0.01, publish=publish, node=self.name
        )
        publish_usage = partial(self.records.publish_usage, PROJECT)
        self.usage_recorder = UsageRecorder(usage, self.bus, failed, interval=0.01, publish=publish_usage)
        self.files = ProjectFiles(timeline, usage, self.bus, self.recorder, self.usage_recorder)
        self.records.follow(PROJECT, self.files)

    async def stop(self) -> None:
        self.recorder.close()
        self.usage_recorder.close()
        await self.records.aclose()
        await self._stack.aclose()
        await cancel(self._tasks)
        await self.connection.aclose()

    def write(self, *texts: str) -> None:
        for text in texts:
            self.bus.append(LineRecord(time.time_ns(), "", "web", "stdout", text))

    def request(self, target: str) -> None:
        request: RequestRecord = replace(REQUEST, target=target, time_ns=time.time_ns())
        self.bus.append(request)

    def texts(self) -> list[str]:
        reader: TimelineReader | None = open_reader(self.files.timeline)
        if reader is None:
            return []
        with closing(reader):
            entries = reader.tail(10_000, RecordFilter())
        return [f"{entry['node']} {entry['body']}" for entry in entries if entry["kind"] == "stdout"]

    def has_copied(self, node: str) -> bool:
        """Return whether this node has copied what it lacked of another one."""
        return node in self.records._sessions and node not in self.records._lacking

    def usage(self) -> dict[str, int]:
        if not self.files.usage.exists():
            return {}
        with closing(UsageStore(self.files.usage)) as store:
            rows = store.read(time.time_ns() // MINUTE_NS - 10)
        return {"requests": sum(count.requests for count in rows.values())}

    def lost(self) -> list[str]:
        with closing(TimelineReader(self.files.timeline)) as reader:
            entries = reader.tail(10_000, RecordFilter())
        return [entry["body"] for entry in entries if entry["kind"] == "platform"]


async def shown(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
def with_nodes(cluster: Cluster, tmp_path: Path) -> Callable[[Callable[..., Awaitable[None]]], None]:
    """Run a scenario with two nodes that have not started."""

    def run(scenario: Callable[..., Awaitable[None]]) -> None:
        async def main() -> None:
            namespace = secrets.token_hex(4)
            nodes = [Node(tmp_path, name, namespace) for name in ("n1", "n2")]
            await scenario(cluster, *nodes)

        asyncio.run(main())

    return run


def test_new_records_and_usage_are_on_both_nodes(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("a")
        await shown(lambda: second.texts() == ["n1 a"])
        second.write("b")
        await shown(lambda: first.texts() == ["n1 a", "n2 b"])
        first.request("/1")
        second.request("/2")
        await shown(lambda: [node.usage() for node in (first, second)] == [{"requests": 2}] * 2)
        await first.stop()
        await second.stop()

    with_nodes(scenario)


def test_node_that_starts_later_gets_what_it_missed_once(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        texts = [str(number) for number in range(5000)]
        first.write(*texts)
        first.request("/1")
        await shown(lambda: len(first.texts()) == 5000 and first.usage() == {"requests": 1})
        await second.start(cluster)
        await shown(lambda: second.texts() == [f"n1 {text}" for text in texts])
        await shown(lambda: second.usage() == {"requests": 1})
        await second.stop()
        first.write("away")
        first.request("/2")
        await shown(lambda: first.usage() == {"requests": 2})
        await second.start(cluster)
        await shown(lambda: second.texts()[-1:] == ["n1 away"] and second.usage() == {"requests": 2})
        assert len(second.texts()) == 5001
        await first.stop()
        await second.stop()

    with_nodes(scenario)


def test_last_records_are_sent_when_a_node_stops(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("a")
        await shown(lambda: second.texts() == ["n1 a"])
        first.write("last")
        first.request("/1")
        await first.stop()
        await shown(lambda: second.texts() == ["n1 a", "n1 last"] and second.usage() == {"requests": 1})
        await second.stop()

    with_nodes(scenario)


def test_lost_messages_are_read_after_the_next_one(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("a")
        await shown(lambda: second.texts() == ["n1 a"] and second.has_copied("n1"))
        enqueue, first.records._enqueue = first.records._enqueue, lambda *message: None  # type: ignore[method-assign]
        first.write("lost")
        first.request("/lost")
        await shown(lambda: len(first.texts()) == 2 and first.usage() == {"requests": 1})
        first.records._enqueue = enqueue  # type: ignore[method-assign]
        await asyncio.sleep(0)
        assert second.texts() == ["n1 a"]
        first.write("b")
        await shown(lambda: second.texts() == ["n1 a", "n1 lost", "n1 b"])
        await shown(lambda: second.usage() == {"requests": 1})
        await first.stop()
        await second.stop()

    with_nodes(scenario)


def test_messages_beyond_those_that_may_wait_are_read_without_another(
    with_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.records.MAX_UNSENT", 1)

    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("0")
        await shown(lambda: second.texts() == ["n1 0"])
        publish, open_again = first.connection.publish, asyncio.Event()

        async def wait_and_publish(subject: str, content: bytes, **options: Any) -> None:
            if ".records." in subject:
                await open_again.wait()
            await publish(subject, content, **options)

        first.connection.publish = wait_and_publish  # type: ignore[method-assign]
        for number in range(1, 5):
            first.write(str(number))
            await shown(lambda number=number: len(first.texts()) == number + 1)
        await shown(lambda: first.records._dropped == {PROJECT})
        open_again.set()
        await shown(lambda: second.texts() == [f"n1 {number}" for number in range(5)])
        await first.stop()
        await second.stop()

    with_nodes(scenario)


def test_project_that_appears_later_gets_what_others_recorded(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        await shown(lambda: first.name in second.presence.present())
        del second.records._projects[PROJECT]
        first.write("early")
        await shown(lambda: len(first.texts()) == 1)
        second.records.follow(PROJECT, second.files)
        await shown(lambda: second.texts() == ["n1 early"])
        await first.stop()
        await second.stop()

    with_nodes(scenario)


def test_records_of_a_node_that_is_gone_are_read_from_another(with_nodes: Any, tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("a", "b")
        first.request("/1")
        await shown(lambda: len(second.texts()) == 2 and second.usage() == {"requests": 1})
        await first.stop()
        third = Node(tmp_path, "n3", first._namespace)
        await third.start(cluster)
        await shown(lambda: third.texts() == ["n1 a", "n1 b"] and third.usage() == {"requests": 1})
        await first.start(cluster)
        first.write("c")
        await shown(lambda: third.texts() == ["n1 a", "n1 b", "n1 c"])
        for node in (first, second, third):
            await node.stop()

    with_nodes(scenario)


def test_records_that_were_removed_before_they_were_copied_are_reported(with_nodes: Any) -> None:
    async def scenario(cluster: Cluster, first: Node, second: Node) -> None:
        await first.start(cluster)
        await second.start(cluster)
        first.write("a")
        await shown(lambda: second.texts() == ["n1 a"])
        await second.stop()
        first.write("b", "c")
        await shown(lambda: len(first.texts()) == 3)
        with closing(TimelineDatabase(first.files.timeline, write=True)) as database:
            database.run("delete from record where body in ('a', 'b')")
        await second.start(cluster)
        await shown(lambda: second.texts() == ["n1 a", "n1 c"])
        await shown(lambda: len(second.lost()) == 1)
        assert "records of the node n1 may be missing on n2" in second.lost()[0]
        await first.stop()
        await second.stop()

    with_nodes(scenario)
