"""The crypto Door: operations of WebCrypto, scrypt, and password hashes.

Keys are bytes that the guest stores; the Door stores nothing between requests.
"""

import asyncio
import json
import math
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module

from doors.crypto.job import HEADERS, KINDS, CryptoProblem, Job, Members, encode
from engine.cancellation import cancel
from engine.confinement import python_module
from engine.door import Door, DoorContext, DoorRequest, DoorResponse, OpenDoor, RunBudget
from engine.fair_threads import FairTurns, QueueFull

IDLE_SECONDS = 60.0
"""How long a process waits for work."""


class ProcessPool(FairTurns):
    """Processes that start when work needs them. Use it on one event loop, and hold a turn to compute."""

    def __init__(self, most: int, per_project: int, max_waiting: int) -> None:
        """At most `most` processes compute, and `per_project` of them for one project."""
        super().__init__(most, per_project, max_waiting)
        self._idle: dict[Process, asyncio.TimerHandle] = {}

    async def compute(self, request: DoorRequest, seconds: int, memory: int) -> tuple[DoorResponse, int]:
        """Return the response to an operation, and its CPU time in nanoseconds.

        `seconds` limits the CPU time, `memory` the bytes that the operation allocates for its parameters.
        Raises CryptoProblem beyond the first limit, and RuntimeError if the process fails. A canceled caller
        ends the process.
        """
        process = await self._take()
        try:
            answer = await _ask(process, request, seconds, memory)
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        loop = asyncio.get_running_loop()
        self._idle[process] = loop.call_later(IDLE_SECONDS, _stdin(process).close)
        return answer

    async def end_idle(self) -> None:
        """End the processes that do not compute."""
        idle, self._idle = self._idle, {}
        for process, timer in idle.items():
            timer.cancel()
            _stdin(process).close()
            await process.wait()

    async def _take(self) -> Process:
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if not (_stdin(process).is_closing() or _stdout(process).at_eof()):
                return process
        return await asyncio.create_subprocess_exec(
            *python_module("doors.crypto.process"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )


def _stdin(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


def _stdout(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None
    return process.stdout


async def _ask(process: Process, request: DoorRequest, seconds: int, memory: int) -> tuple[DoorResponse, int]:
    stdin, stdout = _stdin(process), _stdout(process)
    head = json.dumps([request.path, len(request.body), seconds, memory])
    stdin.writelines([head.encode(), b"\n", request.body])
    try:
        await stdin.drain()
        status, cpu_ns, size = json.loads(await stdout.readuntil())
        body = await stdout.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        ended = await process.wait()
        if ended == -signal.SIGXCPU:
            raise CryptoProblem("too-expensive", "the operation takes longer than the request may") from error
        raise RuntimeError(f"the process of {request.path} ended with status {ended}") from error
    return DoorResponse(status, body) if status == 200 else DoorResponse(status, body, HEADERS), cpu_ns


QUICK_BYTES = 64 << 10
"""Maximum body of a request that is answered on the event loop."""
QUICK_NS = 500_000
"""Maximum estimated CPU time of work on the event loop."""
MAX_REQUEST_BYTES = 9 << 20
MAX_WAITING = 128
"""Maximum calls of a project that wait for a process."""
MAX_WAITING_BYTES = 32 << 20
"""Maximum bytes of a project's requests that wait for a process or are in one."""
PROCESSES_PER_PROCESSOR = 4
"""Maximum processes of operations, which share the processors: the long ones of some projects leave room."""
_BULK_NS_PER_BYTE = 10


class CryptoDoor(Door):
    """The Door `crypto`."""

    name = "crypto"
    purpose = "signatures, encryption, password hashes"
    pages = ("guides/build/auth.md", "reference/crypto-api.md")
    variables = ("SVC_CRYPTO_ENDPOINT",)
    max_body = MAX_REQUEST_BYTES
    problems = KINDS

    def __init__(self) -> None:
        """Use at most half of the processors for a project."""
        count = os.cpu_count() or 1
        self._pool = ProcessPool(PROCESSES_PER_PROCESSOR * count, max(1, count // 2), MAX_WAITING)

    def open(self, context: DoorContext) -> OpenDoor:
        return ProjectCrypto(context.project, self._pool)


class ProjectCrypto:
    """The Door of one project. It implements `engine.door.OpenDoor`."""

    def __init__(self, project: str, pool: ProcessPool) -> None:
        self._project = project
        self._pool = pool
        self._operations: Mapping[str, Callable[[Members], Job]] = {}
        self._bulk: frozenset[str] = frozenset()
        self._in_progress: dict[asyncio.Task[DoorResponse], int] = {}
        """Tasks with the size of their requests in bytes."""

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request: small and quick ones synchronously, others in a process."""
        if not self._operations:
            return self._load_and_answer(request)
        try:
            return self._start(request)
        except CryptoProblem as problem:
            return problem.response()

    async def aclose(self) -> None:
        """End the work in progress, and the processes without work."""
        await cancel(self._in_progress)
        await self._pool.end_idle()

    def _start(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Run a quick job, or start another one. Raises CryptoProblem."""
        operation, size, memory = self._operation(request), len(request.body), 0
        budget = request.budget
        assert budget is not None  # Only runs call this Door.
        if size > QUICK_BYTES:
            cpu_ns = size * _BULK_NS_PER_BYTE
        else:
            job = _checked(operation(Members(request.body)), budget)
            if job.cpu_ns <= QUICK_NS:
                return DoorResponse(200, encode(job.run()))
            cpu_ns, memory = job.cpu_ns, job.memory
        if sum(self._in_progress.values()) + size > MAX_WAITING_BYTES:
            raise CryptoProblem("busy", f"more than {MAX_WAITING_BYTES >> 20} MiB are in progress")
        task = asyncio.get_running_loop().create_task(self._run(request, budget, cpu_ns, memory))
        self._in_progress[task] = size
        task.add_done_callback(self._in_progress.pop)
        return task

    def _operation(self, request: DoorRequest) -> Callable[[Members], Job]:
        operation = self._operations.get(request.path)
        if operation is None:
            raise CryptoProblem("not-found", f"{request.path} is not one of {', '.join(self._operations)}")
        if request.method != "POST":
            raise CryptoProblem("method-not-allowed", f"{request.path} takes POST, not {request.method}")
        if len(request.body) > QUICK_BYTES and request.path not in self._bulk:
            raise CryptoProblem(
                "too-large",
                f"the body of {request.path} has {len(request.body)} bytes, more than {QUICK_BYTES}",
            )
        return operation

    async def _load_and_answer(self, request: DoorRequest) -> DoorResponse:
        """Answer the first request: the import of the operations takes a tenth of a second."""
        operations = await asyncio.to_thread(import_module, "doors.crypto.operations")
        self._operations, self._bulk = operations.OPERATIONS, operations.BULK
        answer = self.answer(request)
        return answer if isinstance(answer, DoorResponse) else await answer

    async def _run(self, request: DoorRequest, budget: RunBudget, cpu_ns: int, memory: int) -> DoorResponse:
        """Run an operation in a process.

        The run is charged the estimate at the start, so that a canceled one is charged too.
        """
        try:
            async with self._pool.turn(self._project):
                budget.door_cpu_ns += cpu_ns
                seconds = max(1, math.ceil(_left_ns(budget) / 1e9))
                response, used_ns = await self._pool.compute(request, seconds, memory)
                budget.door_cpu_ns += used_ns - cpu_ns
                return response
        except QueueFull:
            return CryptoProblem("busy", f"{MAX_WAITING} operations are waiting").response()
        except CryptoProblem as problem:
            return problem.response()


def _left_ns(budget: RunBudget) -> int:
    return budget.deadline_ns - time.monotonic_ns()


def _checked(job: Job, budget: RunBudget) -> Job:
    """Return a job that fits the rest of its run. Raises CryptoProblem."""
    if job.memory > budget.memory_limit:
        raise CryptoProblem(
            "too-expensive",
            f"the operation needs {job.memory >> 20} MiB of memory; "
            f"memory_limit_mb is {budget.memory_limit >> 20}",
        )
    left_ns = _left_ns(budget)
    if job.cpu_ns > left_ns:
        raise CryptoProblem(
            "too-expensive",
            f"the operation takes about {job.cpu_ns / 1e9:.1f} s; "
            f"the request ends in {max(0, left_ns) / 1e9:.1f} s",
        )
    return job
