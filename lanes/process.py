"""Programs run as leaders of their own process group, which ends with them.

No process of the group survives exit, time limit or cancellation. A daemon that left the group cannot block
the build. Sinks such as `Tail` and `Lines` receive the output.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

GRACE_SECS = 2.0
NICENESS = 10
MAX_TAIL_BYTES = 64 * 1024
_READ = 64 * 1024

Sink = Callable[[bytes], None]


class Tail:
    """The last `MAX_TAIL_BYTES` bytes of the output; `feed` is a sink."""

    def __init__(self) -> None:
        self._content = bytearray()

    def feed(self, block: bytes) -> None:
        """Receive the next output."""
        self._content += block
        del self._content[:-MAX_TAIL_BYTES]

    def __bytes__(self) -> bytes:
        return bytes(self._content)

    @property
    def text(self) -> str:
        """The output as text; invalid UTF-8 is replaced."""
        return self._content.decode(errors="replace")


class OutputLines:
    """Splits output into lines without `\\n`; `feed` is a sink.

    An incomplete line is buffered up to `max_length` bytes.
    """

    def __init__(self, on_line: Callable[[bytes], None], max_length: int) -> None:
        self._on_line = on_line
        self._max_length = max_length
        self._incomplete = b""

    def feed(self, block: bytes) -> None:
        """Receive the next output."""
        *lines, incomplete = (self._incomplete + block).split(b"\n")
        for line in lines:
            self._on_line(line)
        self._incomplete = incomplete[: self._max_length]

    def close(self) -> None:
        """Emit the incomplete last line."""
        self._on_line(self._incomplete)


async def run_group(
    command: str | Sequence[str],
    folder: Path,
    stdout: Sink,
    stderr: Sink | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    nice: bool = False,
) -> int:
    """Run a shell line, or a program with arguments, `nice` at low priority; return its status.

    A negative status is the number of the signal that killed it. The sinks receive the output as it arrives;
    without a sink of its own, stderr is merged into stdout. Standard input is empty. The group
    is killed at its end. Raises `OSError` if it cannot start.
    """
    arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
    with contextlib.ExitStack() as writers:
        # With asyncio's own pipes, `wait` would not return while a background process holds the
        # other end.
        readers = []
        write_ends = []
        for sink in (stdout, stderr) if stderr is not None else (stdout,):
            reading, writing = os.pipe()
            readers.append((reading, sink))
            writers.callback(os.close, writing)
            write_ends.append(writing)
        try:
            starting = asyncio.create_subprocess_exec(
                *arguments,
                cwd=folder,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_ends[0],
                stderr=write_ends[-1],
                start_new_session=True,
                preexec_fn=(lambda: os.nice(NICENESS)) if nice else None,
            )
            process = await _whole_group(asyncio.ensure_future(starting))
        except BaseException:
            for reading, _ in readers:
                os.close(reading)
            raise
    collectors = [asyncio.create_task(_collect(reading, sink)) for reading, sink in readers]
    try:
        return await process.wait()
    finally:
        try:
            await _end(process)
            # Bounded: a daemon that left the group can hold a pipe open forever.
            await asyncio.wait(collectors, timeout=GRACE_SECS)
        finally:
            for task in collectors:
                task.cancel()


async def run(
    command: Sequence[str], folder: Path, *, environ: Mapping[str, str] | None = None, nice: bool = False
) -> tuple[int, str]:
    """Run a program as `run_group` does; return its status and the last 64 KiB of its output."""
    output = Tail()
    status = await run_group(command, folder, output.feed, environ=environ, nice=nice)
    return status, output.text


async def _whole_group(starting: asyncio.Task[asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """Return the started leader. Cancellation ends its group; asyncio would only kill the leader."""
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _end(await starting)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the rest of the group, then kill it."""
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
    except (ProcessLookupError, PermissionError):  # no process left; macOS raises it for a group of zombies
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
