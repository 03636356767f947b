"""Worker processes: starts, updates, supervises and restarts them, and collects their records.

Each worker listens on its own SO_REUSEPORT sockets. The pool holds all of them open, so connections queue
while a worker restarts.
"""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.confinement import python_module
from engine.deploy.serving import DoorUsage, Publication
from engine.http.tls import CertificateSet
from engine.measurement import MeasurementBatch
from engine.metrics.families import PoolState
from engine.timeline.bus import TimelineBus
from engine.timeline.recording import Recording
from engine.wasm.execution.memory_budget import ResidentSet
from engine.workers import protocol

STATE_SECONDS = 1.0
"""How long a worker may take to report its state."""
PAUSE_SECONDS = 1.0
"""Delay before a restart of a worker that ended immediately."""
EXTRA_SECONDS = 5.0
"""How long a worker may take to exit beyond the graceful-shutdown timeout."""


@dataclass(slots=True)
class _Worker:
    """A worker process, and the replies to come."""

    process: asyncio.subprocess.Process
    channel: protocol.Channel
    replies: deque[asyncio.Future[PoolState | None]] = field(default_factory=deque)

    def ask(self, *message: object) -> asyncio.Future[PoolState | None]:
        """Send a message; return its reply, which is canceled if the worker exits."""
        reply = asyncio.get_running_loop().create_future()
        self.replies.append(reply)
        self.channel.send(*message)
        return reply


class WorkerPool:
    """All workers of a server."""

    def __init__(
        self,
        *,
        sockets: list[list[socket.socket]],
        config: protocol.WorkerConfig,
        timeline_of: Callable[[str], TimelineBus],
        uses_of: Callable[[str], DoorUsage],
        on_work: Callable[[str], None],
        warn: Callable[[str], None],
        program: str,
    ) -> None:
        """`sockets` has a list for each worker. `warn` is called with worker failures.

        `on_work` is called with a project whose jobs have changed.

        Records that workers report go to the project's timeline; Door calls are added to its usage. `program`
        is the module that a worker runs, which calls `engine.workers.worker.main`.
        """
        self._program = program
        self._sockets = sockets
        self._config = config
        self._timeline_of = timeline_of
        self._uses_of = uses_of
        self._on_work, self._warn = on_work, warn
        self._last: dict[str, Publication] = {}
        self._certificates: CertificateSet | None = None
        self._workers: dict[int, _Worker] = {}

    def resident_bytes(self) -> int:
        """Return the resident bytes of all workers."""
        running = [each.process.pid for each in self._workers.values() if each.process.returncode is None]
        return sum(ResidentSet(pid).read() for pid in running)

    async def pool_states(self) -> list[PoolState]:
        """Return the instances of each worker; without those that do not reply in time."""
        replies = [worker.ask("report") for worker in self._workers.values()]
        if replies:
            await asyncio.wait(replies, timeout=STATE_SECONDS)
        states = (reply.result() for reply in replies if reply.done() and not reply.cancelled())
        return [state for state in states if state is not None]

    def certify(self, certificates: CertificateSet) -> None:
        """Replace the certificates of all workers, also of those that start later."""
        self._certificates = certificates
        for worker in self._workers.values():
            worker.channel.send("certify", certificates)

    async def publish(self, publication: Publication) -> None:
        """Update all workers; returns when each live one serves the publication."""
        others = self._last if self._config.multi_project else {}
        self._last = others | {publication.project.name: publication}
        replies = []
        for worker in self._workers.values():
            replies.append(worker.ask("publish", publication))
            worker.channel.send("serve")
        if replies:
            await asyncio.wait(replies)

    async def run(self, stop: asyncio.Event) -> None:
        """Run all workers until `stop` is set, then stop them gracefully."""
        supervisors = [asyncio.create_task(self._supervise(i, stop)) for i in range(len(self._sockets))]
        try:
            await asyncio.gather(*supervisors)
        finally:
            for opened in (opened for each in self._sockets for opened in each):
                opened.close()

    async def _supervise(self, index: int, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        while not stop.is_set():
            began = time.monotonic()
            worker = self._workers[index] = await self._spawn(index)
            reading = asyncio.create_task(self._read_messages(index, worker))
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                if worker.process.returncode is None:
                    worker.process.terminate()
                try:
                    await asyncio.wait_for(worker.process.wait(), self._config.grace + EXTRA_SECONDS)
                except TimeoutError:
                    worker.process.kill()
                    await worker.process.wait()
                await reading
                break
            status = await worker.process.wait()
            how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            self._warn(f"worker {index + 1} {how}; starting another")
            if time.monotonic() - began < PAUSE_SECONDS:
                await asyncio.wait({stopping}, timeout=PAUSE_SECONDS)
        stopping.cancel()

    async def _spawn(self, index: int) -> _Worker:
        parent_end, child_end = socket.socketpair()
        inherited = [child_end.fileno(), *(opened.fileno() for opened in self._sockets[index])]
        try:
            process = await asyncio.create_subprocess_exec(
                *python_module(self._program),
                *map(str, inherited),
                pass_fds=inherited,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                env=dict(os.environ),
            )
        finally:
            child_end.close()
        worker = _Worker(process, await protocol.Channel.open(parent_end))
        worker.channel.send("start", self._config)
        if self._certificates is not None:
            worker.channel.send("certify", self._certificates)
        for publication in self._last.values():
            worker.ask("publish", publication)
        if self._config.multi_project or self._last:
            worker.channel.send("serve")
        return worker

    async def _read_messages(self, index: int, worker: _Worker) -> None:
        while (message := await worker.channel.receive()) is not None:
            match message:
                case "records", project, records, uses:
                    timeline = self._timeline_of(project)
                    self._uses_of(project).update(uses)
                    for record in records:
                        if isinstance(record, Recording):
                            timeline.recordings.append(record)
                        elif isinstance(record, MeasurementBatch):
                            timeline.measurements.append(record)
                        else:
                            timeline.append(record)
                case "jobs", project:
                    self._on_work(project)
                case "warn", text:
                    self._warn(text)
                case "reply", state:
                    reply = worker.replies.popleft()
                    if not reply.done():
                        reply.set_result(state)
        del self._workers[index]
        for reply in worker.replies:
            reply.cancel()
        worker.channel.close()
