"""Processes that compute operations, and end with the caller that waits for them."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress

from doors.crypto.problem import HEADERS, CryptoProblem
from engine.door import DoorRequest, DoorResponse
from engine.fair_threads import FairTurns

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
            sys.executable,
            "-I" if sys.flags.isolated else "-P",
            "-m",
            "doors.crypto.process",
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
