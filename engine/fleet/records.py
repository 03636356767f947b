"""Records and usage of all nodes of a fleet: each publishes its own, and stores those of the others.

The cluster does not store the messages. A node that lacks some reads the rest from the node that recorded
them. It notices that by a batch that begins after the end of its copy, or by the session of a node, which
changes with its starts and connections.
"""

import asyncio
import json
import time
import zlib
from base64 import b64decode
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bucket.protocols import BucketError
from engine.cancellation import cancel, spawn
from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.errors import FleetError
from engine.fleet.members import Presence, Questions
from engine.timeline.bus import TimelineBus
from engine.timeline.query import open_reader
from engine.timeline.record import PlatformRecord
from engine.timeline.recorder import CopiedBatch, Rows, TimelineRecorder, messages
from engine.usage.store import UsageRecorder, UsageRow, UsageStore

RECORDS, USAGE = "records", "usage"
"""Kinds of questions for a `project`, of a node (`of`; "": the asked one), after a position (`after`)."""
WATCH_SECONDS = 0.5
RETRY_SECONDS = 2.0
CLOSE_SECONDS = 1.0
FULL_SECONDS = 0.2
"""Pause while usage that was copied waits to be written."""
MAX_UNSENT = 1000
"""Maximum messages that wait to be sent. Others are dropped, and reported to the nodes, which read them."""
LATE_MINUTES = 60
"""Minutes whose usage may still have changed since the last one that was copied."""
_LOST = "records of the node {} may be missing on {}: older ones were removed before they were copied"


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a project and what writes them."""

    timeline: Path
    usage: Path
    bus: TimelineBus
    recorder: TimelineRecorder
    usage_recorder: UsageRecorder


class FleetRecords:
    """Publishes and copies records. Use on one event loop, except what publishes."""

    def __init__(
        self, connection: NatsConnection, namespace: str, presence: Presence, questions: Questions
    ) -> None:
        self.node = presence.node
        self._connection, self._presence, self._questions = connection, presence, questions
        self._subject = f"svc-records.{namespace}"
        self._loop = asyncio.get_running_loop()
        self._projects: dict[str, ProjectFiles] = {}
        self._unsent: asyncio.Queue[tuple[str, str, bytes]] = asyncio.Queue(MAX_UNSENT)
        self._dropped: set[str] = set()
        """Projects with messages that were not sent."""
        self._sessions: dict[str, object] = {}
        self._lacking: dict[str, set[str]] = {}
        """The projects of which this node is to copy records, by the node that has them."""
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, project: str, files: ProjectFiles) -> None:
        """Store copies of the records of a project, too."""
        self._projects[project] = files
        for node in self._sessions:
            self._copy(node, project)

    def remove(self, project: str) -> None:
        self._projects.pop(project, None)

    def publish(self, project: str, after: int, rows: Rows, series: Rows) -> None:
        """Send new records of a project to all nodes, on any thread: see `engine.timeline.recorder`."""
        for content in messages(after, rows, series):
            self._loop.call_soon_threadsafe(self._enqueue, "records", project, content)

    def publish_usage(self, project: str, rows: Sequence[UsageRow]) -> None:
        """Send changed sums, on any thread. Nodes read lost ones with the records of their requests."""
        content = zlib.compress(json.dumps(rows).encode())
        self._loop.call_soon_threadsafe(self._enqueue, "usage", project, content)

    def _enqueue(self, kind: str, project: str, content: bytes) -> None:
        if self._unsent.full():
            self._dropped.add(project)
        else:
            self._unsent.put_nowait((kind, project, content))

    async def start(self) -> None:
        """Publish new records, and copy those that this node lacks, from now on. Raises `BucketError`."""
        await self._connection.subscribe(f"{self._subject}.*.*.*", self._receive)
        spawn(self._tasks, self._send())
        spawn(self._tasks, self._watch())

    async def aclose(self) -> None:
        """Send the last records, which recorders that are closed have written, and stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.sleep(0)  # They are in calls that wait for the loop.
                await self._unsent.join()
        await self._connection.flush()
        self._projects.clear()
        await cancel(list(self._tasks))

    async def _send(self) -> None:
        while True:
            kind, project, content = await self._unsent.get()
            try:
                await self._connection.publish(f"{self._subject}.{kind}.{self.node}.{project}", content)
            except BucketError:
                self._dropped.add(project)
                await asyncio.sleep(RETRY_SECONDS)
            self._unsent.task_done()
            while self._unsent.empty() and self._dropped:
                self._enqueue("dropped", self._dropped.pop(), b"")

    async def _receive(self, message: Any) -> None:
        kind, node, project = message.subject.rsplit(".", 3)[1:]
        files = self._projects.get(project)
        if files is None or node == self.node:
            return
        if kind == "records":

            def on_written(position: int | None) -> None:
                if position is None:
                    self._loop.call_soon_threadsafe(self._copy, node, project)

            files.recorder(CopiedBatch(node, message.data, on_written))
        elif kind == "usage" and not files.usage_recorder.full:
            files.usage_recorder.copy(node, json.loads(zlib.decompress(message.data)))
        else:
            self._copy(node, project)

    async def _watch(self) -> None:
        """Copy what this node lacks of nodes that appear, or that had or have another connection."""
        while True:
            for node in self._presence.present() - {self.node}:
                session = self._presence.last[node][1].get("session"), self._connection.reconnects
                if self._sessions.get(node) != session:
                    self._sessions[node] = session
                    self._copy(node, *self._projects)
            await asyncio.sleep(WATCH_SECONDS)

    def _copy(self, node: str, *projects: str) -> None:
        """Copy what this node lacks of projects, once more if they are being copied."""
        if node in self._lacking:
            self._lacking[node] |= {*projects}
        else:
            self._lacking[node] = {*projects}
            spawn(self._tasks, self._copy_lacking(node))

    async def _copy_lacking(self, node: str) -> None:
        try:
            while self._lacking[node]:
                if (project := self._lacking[node].pop()) not in self._projects:
                    continue  # It was removed.
                others = await self._copy_node(node, project, node)
                for other in others - self._presence.present() - {self.node}:
                    await self._copy_node(node, project, other)
        except SvcError:  # The node is away or stops, or a file cannot be read.
            await asyncio.sleep(RETRY_SECONDS)
            self._sessions.pop(node, None)  # Once it is present, everything is copied.
        finally:
            del self._lacking[node]

    async def _copy_node(self, node: str, project: str, of: str) -> set[str]:
        """Copy what a node has of itself, or of another one; return the nodes of which it has copies."""
        files, question = self._projects[project], {"project": project, "of": "" if of == node else of}
        others: set[str] = set()
        position, minute = await asyncio.to_thread(_copied, files, of)
        end = False
        while not end:
            answer = await self._questions.ask(node, RECORDS, {**question, "after": position})
            others, end = set(answer["copied"]), answer["end"]
            if end and not files.timeline.exists():
                break
            if answer["lost"]:
                text = _LOST.format(of, self.node)
                files.bus.append(PlatformRecord(time.time_ns(), "", "WARN", text))
            written = Future[int | None]()
            written.set_running_or_notify_cancel()  # Its batch is written even if this task is canceled.
            files.recorder(CopiedBatch(of, b64decode(answer["content"]), written.set_result))
            before, last = position, await asyncio.wrap_future(written)
            if last is None:
                raise FleetError("too many records wait to be written")
            position, end = last, end or last == before
        after = minute, ""
        while rows := (await self._questions.ask(node, USAGE, {**question, "after": after}))["rows"]:
            files.usage_recorder.copy(of, rows)
            after = rows[-1][0], rows[-1][1]
            while files.usage_recorder.full and project in self._projects:  # noqa: ASYNC110
                await asyncio.sleep(FULL_SECONDS)
        return others


def _copied(files: ProjectFiles, node: str) -> tuple[int, int]:
    """Return the last cursor of a node that was copied, and the last minute whose usage cannot change."""
    cursor = minute = 0
    if (reader := open_reader(files.timeline)) is not None:
        with closing(reader):
            cursor = reader.copied().get(node, 0)
    if files.usage.exists():
        with closing(UsageStore(files.usage)) as store:
            minute = store.last_copied(node)
    return cursor, max(0, minute - LATE_MINUTES)
