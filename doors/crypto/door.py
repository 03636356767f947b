"""The crypto Door: operations of WebCrypto, scrypt, and password hashes.

Keys are bytes that the guest stores; the Door stores nothing between requests.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType

from doors.crypto.job import Job, Members, encode
from doors.crypto.problem import CryptoProblem
from engine.door import DoorContext, DoorRequest, DoorResponse, OpenDoor, RunBudget
from engine.fair_threads import FairThreads, QueueFull

QUICK_BYTES = 64 << 10
"""Maximum body of a request that is answered on the event loop."""
QUICK_NS = 500_000
"""Maximum estimated CPU time of work on the event loop."""
MAX_REQUEST_BYTES = 9 << 20
MAX_WAITING = 128
"""Maximum calls of a project that wait for a thread."""
MAX_WAITING_BYTES = 32 << 20
"""Maximum bytes of a project's requests in progress in threads."""
_BULK_NS_PER_BYTE = 10


class CryptoDoor:
    """The Door `crypto`. It implements `engine.door.Door`."""

    name: str = "crypto"
    variables: tuple[str, ...] = ("SVC_CRYPTO_ENDPOINT",)
    max_body: int = MAX_REQUEST_BYTES

    def __init__(self, threads: int | None = None) -> None:
        """Use at most `threads` threads, by default as many as processors, and half of them for a project."""
        count = max(2, os.cpu_count() or 1) if threads is None else threads
        self._threads = FairThreads(count, max(1, count // 2), MAX_WAITING)

    def open(self, context: DoorContext) -> OpenDoor:
        """Open the Door for one project, without files."""
        return ProjectCrypto(context.project, self._threads)


class ProjectCrypto:
    """The Door of one project. It implements `engine.door.OpenDoor`."""

    def __init__(self, project: str, threads: FairThreads) -> None:
        self._project = project
        self._threads = threads
        self._operations: Mapping[str, Callable[[Members], Job]] = {}
        self._bulk: frozenset[str] = frozenset()
        self._in_progress: dict[asyncio.Task[DoorResponse], int] = {}
        """Tasks with the size of their requests in bytes."""

    def answer(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Answer a request: small and quick ones synchronously, others in a thread."""
        if not self._operations:
            return self._load_and_answer(request)
        try:
            return self._start(request)
        except CryptoProblem as problem:
            return problem.response()

    async def aclose(self) -> None:
        """Wait for the work in progress."""
        while self._in_progress:
            await asyncio.wait(self._in_progress)

    def _start(self, request: DoorRequest) -> DoorResponse | Awaitable[DoorResponse]:
        """Run a quick job, or start another one. Raises CryptoProblem."""
        prepare, size = self._prepare(request), len(request.body)
        if size > QUICK_BYTES:
            job = Job(lambda: _checked(prepare(), request.budget).run(), size * _BULK_NS_PER_BYTE)
        else:
            job = _checked(prepare(), request.budget)
            if job.cpu_ns <= QUICK_NS:
                return DoorResponse(200, encode(job.run()))
        if sum(self._in_progress.values()) + size > MAX_WAITING_BYTES:
            raise CryptoProblem("busy", f"more than {MAX_WAITING_BYTES >> 20} MiB are in progress")
        task = asyncio.get_running_loop().create_task(self._run(job, request.budget))
        self._in_progress[task] = size
        task.add_done_callback(self._in_progress.pop)
        return task

    def _prepare(self, request: DoorRequest) -> Callable[[], Job]:
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
        return lambda: operation(Members(request.body))

    async def _load_and_answer(self, request: DoorRequest) -> DoorResponse:
        """Answer the first request: the import of the operations takes a tenth of a second."""
        operations = await asyncio.to_thread(_import_operations)
        self._operations, self._bulk = operations.OPERATIONS, operations.BULK
        answer = self.answer(request)
        return answer if isinstance(answer, DoorResponse) else await answer

    async def _run(self, job: Job, budget: RunBudget | None) -> DoorResponse:
        """Run a job in a thread.

        The run is charged the estimate at the start, so that a canceled one is charged too.
        """
        if budget is not None:
            budget.door_cpu_ns += job.cpu_ns
        try:
            response, cpu_ns = await self._threads.run(self._project, lambda: _measured(job))
        except QueueFull:
            response, cpu_ns = CryptoProblem("busy", f"{MAX_WAITING} operations are waiting").response(), 0
        if budget is not None:
            budget.door_cpu_ns += cpu_ns - job.cpu_ns
        return response


def _import_operations() -> ModuleType:
    from doors.crypto import operations

    return operations


def _checked(job: Job, budget: RunBudget | None) -> Job:
    """Return a job that fits the rest of its run. Raises CryptoProblem."""
    if budget is None:
        return job
    if job.memory > budget.memory_limit:
        raise CryptoProblem(
            "too-expensive",
            f"the operation needs {job.memory >> 20} MiB of memory; "
            f"memory_limit_mb is {budget.memory_limit >> 20}",
        )
    left_ns = budget.deadline_ns - time.monotonic_ns()
    if job.cpu_ns > left_ns:
        raise CryptoProblem(
            "too-expensive",
            f"the operation takes about {job.cpu_ns / 1e9:.1f} s; "
            f"the request ends in {max(0, left_ns) / 1e9:.1f} s",
        )
    return job


def _measured(job: Job) -> tuple[DoorResponse, int]:
    """Run a job; return the response and the CPU time of this thread in nanoseconds."""
    began = time.thread_time_ns()
    try:
        response = DoorResponse(200, encode(job.run()))
    except CryptoProblem as problem:
        response = problem.response()
    return response, time.thread_time_ns() - began
