"""Runs one program as the leader of a process group of its own, and ends the group with it.

Owns the processes from start to end: whatever happens (end, limit, cancellation), nothing of the group is
left, and a daemon that left the group can not hold the build up. What is printed is the sinks' affair; `Tail`
and `Lines` are two.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

GRACE_SECS = 2.0
MAX_TAIL_BYTES = 64 * 1024
_READ = 64 * 1024

Sink = Callable[[bytes], None]


class Tail:
    """The last `KEPT` bytes of what is printed; `feed` is a sink."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, block: bytes) -> None:
        """Take what was printed next."""
        self._kept += block
        del self._kept[:-MAX_TAIL_BYTES]

    def __bytes__(self) -> bytes:
        return bytes(self._kept)

    @property
    def text(self) -> str:
        """It as text, whatever it is."""
        return self._kept.decode(errors="replace")


class Lines:
    """Hands lines on when they end, without their `\\n`; `feed` is a sink.

    Of one that has not ended, `longest` bytes are kept.
    """

    def __init__(self, take: Callable[[bytes], None], longest: int) -> None:
        self._take = take
        self._longest = longest
        self._begun = b""

    def feed(self, block: bytes) -> None:
        """Take what was printed next."""
        *lines, begun = (self._begun + block).split(b"\n")
        for line in lines:
            self._take(line)
        self._begun = begun[: self._longest]

    def close(self) -> None:
        """Hand on what has no end."""
        self._take(self._begun)


async def run_group(
    command: str | Sequence[str],
    folder: Path,
    stdout: Sink,
    stderr: Sink | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run a shell line, or a program with its arguments, until it ends; return its status.

    A status below 0 is the number of the signal that ended it. The sinks take what is printed, as it comes;
    without one of its own, stderr goes where stdout does. Standard input is empty. Background processes that
    it leaves are ended with it. Raises `OSError` when it can not start.
    """
    with contextlib.ExitStack() as writers:
        # Pipes of our own, not asyncio's: `wait` then returns when the program ends, even if something that
        # it left behind still holds the other end.
        readers = []
        ends = []
        for sink in (stdout, stderr) if stderr is not None else (stdout,):
            reading, writing = os.pipe()
            readers.append((reading, sink))
            writers.callback(os.close, writing)
            ends.append(writing)
        try:
            process = await _start(command, folder, ends[0], ends[-1], environ)
        except BaseException:
            for reading, _ in readers:
                os.close(reading)
            raise
    printed = [asyncio.create_task(_collect(reading, sink)) for reading, sink in readers]
    try:
        return await process.wait()
    finally:
        try:
            await _end(process)
            # Bounded: a daemon that left the group may hold a pipe open for ever.
            await asyncio.wait(printed, timeout=GRACE_SECS)
        finally:
            for task in printed:
                task.cancel()


async def _start(
    command: str | Sequence[str], folder: Path, stdout: int, stderr: int, environ: Mapping[str, str] | None
) -> asyncio.subprocess.Process:
    empty = asyncio.subprocess.DEVNULL
    if isinstance(command, str):
        return await asyncio.create_subprocess_shell(
            command,
            cwd=folder,
            env=environ,
            stdin=empty,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    return await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environ, stdin=empty, stdout=stdout, stderr=stderr, start_new_session=True
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what is left of the group: politely while its leader lives, then by force."""
    try:
        if process.returncode is None and _signal(process.pid, signal.SIGTERM):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_SECS)
    finally:
        _signal(process.pid, signal.SIGKILL)
        await process.wait()


def _signal(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # nobody left; macOS says it so of a group of zombies
        return False
    return True


async def _collect(descriptor: int, sink: Sink) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        while block := await reader.read(_READ):
            sink(block)
    finally:
        transport.close()
