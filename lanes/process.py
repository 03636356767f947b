"""Programs run as leaders of their own process group, build commands of users, and locks between processes.

No process of the group survives exit, time limit or cancellation. A daemon that left the group cannot block
the build. Sinks such as `Tail` and `Lines` receive the output.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from engine.lane import BuildFailed, BuildRequest

GRACE_SECS = 2.0
NICENESS = 10
MAX_TAIL_BYTES = 64 * 1024
_READ = 64 * 1024

Sink = Callable[[bytes], None]


class Tail:
    """The last `MAX_TAIL_BYTES` bytes of the output; `feed` is a sink."""

    def __init__(self) -> None:
        self.content = bytearray()

    def feed(self, block: bytes) -> None:
        """Receive the next output."""
        self.content += block
        del self.content[:-MAX_TAIL_BYTES]

    @property
    def text(self) -> str:
        """The output as text; invalid UTF-8 is replaced."""
        return self.content.decode(errors="replace")


class OutputLines:
    """Splits output into lines without `\\n`; `feed` is a sink.

    An incomplete line is buffered up to `max_length` bytes.
    """

    def __init__(self, on_line: Callable[[bytes], None], max_length: int) -> None:
        self._on_line = on_line
        self._max_length = max_length
        self._incomplete = bytearray()

    def feed(self, block: bytes) -> None:
        """Receive the next output."""
        *ends, rest = block.split(b"\n")
        for end in ends:
            self._on_line(bytes(self._incomplete + end))
            self._incomplete.clear()
        self._incomplete += rest[: self._max_length - len(self._incomplete)]

    def close(self) -> None:
        """Emit the incomplete last line."""
        self._on_line(bytes(self._incomplete))


async def run_group(
    command: str | Sequence[str],
    folder: Path,
    stdout: Sink,
    stderr: Sink | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    nice: bool = False,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> int:
    """Run a shell line, or a program with arguments, `nice` at low priority; return its status.

    A negative status is the number of the signal that killed it. The sinks receive the output as it arrives;
    without a sink of its own, stderr is merged into stdout. Standard input is empty, or a file descriptor.
    The group is killed at its end. Raises `OSError` if it cannot start.
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
                stdin=stdin,
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


class LineProgram:
    """A program that reads lines from standard input, run as `run_group` does."""

    def __init__(
        self, command: str | Sequence[str], folder: Path, stdout: Sink, stderr: Sink | None = None
    ) -> None:
        self._reading, self._writing = os.pipe()
        self.running = asyncio.create_task(run_group(command, folder, stdout, stderr, stdin=self._reading))
        """The run, which returns the status of the program."""

    def write(self, line: bytes) -> None:
        os.write(self._writing, line + b"\n")

    async def aclose(self) -> None:
        """End the program, and close its standard input."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await self.running
        os.close(self._reading)
        os.close(self._writing)


async def version_of(command: Sequence[str], pattern: re.Pattern[str], seconds: float) -> re.Match[str] | str:
    """Return what a pattern finds in the version that a program prints, or why the program is not usable."""
    try:
        async with asyncio.timeout(seconds):
            code, output = await run(command, Path("/"))
    except (OSError, TimeoutError) as error:
        return f"{command[0]} cannot be run: {str(error) or 'it does not end'}"
    if code != 0 or (found := pattern.search(output)) is None:
        return f"{command[0]} cannot be run: {output.strip() or f'exit status {code}'}"
    return found


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


POLL_SECONDS = 0.1


@asynccontextmanager
async def locked(path: Path, report: Callable[[str], None], activity: str) -> AsyncIterator[None]:
    """Lock a file while the body runs; `activity` describes the work of the holder in progress messages.

    The lock ends with its process. Waiting can be canceled.
    """
    with path.open("w") as lock:
        reported = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    report(f"waiting for another build that is {activity} …")
                    reported = True
                await asyncio.sleep(POLL_SECONDS)
        yield


@asynccontextmanager
async def exclusive(request: BuildRequest) -> AsyncIterator[None]:
    """Lock a resource's folder for its `build` command and the copy of its output.

    Raises `BuildFailed` if the cache cannot be written.
    """
    resource = request.resource
    name = sha256(str(resource.workdir).encode(errors="surrogateescape")).hexdigest()
    path = request.cache / "locks" / f"{name[:32]}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        raise BuildFailed(
            f"resource {resource.name}: {path} cannot be made: {error.strerror}",
            "Check the free space and permissions of the cache folder (SVC_HOME).",
        ) from error
    async with locked(path, request.report, f"running the build command of resource {resource.name}"):
        yield


LIMIT_SECS = 600.0
_REPORTED_LINES = 1000
MAX_LINE_BYTES = 500
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class CommandOutput:
    """Output of a command: lines as they arrive, and its last `MAX_TAIL_BYTES` bytes.

    `reported` is false once a line was cut or left out.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tail = Tail()
        self._lines = OutputLines(self._say, MAX_LINE_BYTES)
        self._count = 0
        self.reported = True

    def feed(self, block: bytes) -> None:
        """Receive the next output."""
        self._tail.feed(block)
        if self._count <= _REPORTED_LINES:
            self._lines.feed(block.replace(b"\r", b"\n"))

    def close(self) -> None:
        self._lines.close()

    def _say(self, line: bytes) -> None:
        text = _plain(line[:MAX_LINE_BYTES])
        if not text.strip() or self._count > _REPORTED_LINES:
            return
        self._count += 1
        self.reported = self.reported and len(line) < MAX_LINE_BYTES and self._count <= _REPORTED_LINES
        self._report(text if self._count <= _REPORTED_LINES else "… (more output, not shown)")

    @property
    def tail(self) -> str:
        """The end of the output as text, without an incomplete first line."""
        tail = bytes(self._tail.content)
        text = _plain(tail.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return text.partition("\n")[2] if len(tail) == MAX_TAIL_BYTES and "\n" in text else text


def _plain(data: bytes) -> str:
    """Decode output and remove colors, cursor movements and control characters."""
    return _CONTROL.sub("", data.decode(errors="replace"))


async def run_build(request: BuildRequest) -> None:
    """Run the `build` command of a resource; the caller holds its `exclusive` lock.

    Raises `BuildFailed`, also if the command made `output` a symlink out of the project folder.
    """
    resource = request.resource
    assert resource.build is not None  # guaranteed by manifest validation
    await run_command(
        resource.build,
        name=f"the build command of resource {resource.name}",
        workdir=resource.workdir,
        report=request.report,
    )
    check_output(request)


def check_output(request: BuildRequest) -> None:
    """Raise `BuildFailed` if `output` is a symlink out of the project folder."""
    resource, output = request.resource, request.resource.output
    assert output is not None
    # Unlike `Path.resolve`, `realpath` accepts a loop of symlinks in every version of Python.
    if not Path(os.path.realpath(output)).is_relative_to(os.path.realpath(request.root)):
        raise BuildFailed(
            f'resource {resource.name}: "{request.display_path(output)}" is outside the project folder',
            "Remove the symlink, and correct `build` so that it writes inside the project folder.",
        )


async def run_command(
    command: str, *, name: str, workdir: Path, report: Callable[[str], None], limit_secs: float = LIMIT_SECS
) -> str:
    """Run a shell command in `workdir`; return the end of its output.

    `name` describes it in errors ("the build command of resource front"). `report` receives its first 1000
    lines, stdout and stderr merged. Standard input is empty. Its group is killed at its end.
    Raises `BuildFailed` with the last 64 KiB of output if it fails, exceeds `limit_secs` or cannot start.
    """
    output = CommandOutput(report)
    try:
        async with asyncio.timeout(limit_secs):
            status = await run_group(command, workdir, output.feed)
    except TimeoutError:
        raise BuildFailed(
            f"{name} did not end within {limit_secs:g} seconds and was stopped: {command}",
            "A build command must exit. Remove options that watch files or start a server.",
            output=output.tail,
            reported=output.reported,
        ) from None
    except OSError as error:
        raise not_started(name, workdir, error) from error
    finally:
        output.close()
    if status:
        raise unsuccessful(name, command, workdir, status, output)
    return output.tail


def not_started(name: str, workdir: Path, error: OSError) -> BuildFailed:
    """Return the error of a command that cannot start."""
    return BuildFailed(
        f"{name} cannot start in {workdir}: {error.filename or workdir}: {error.strerror or error}",
        "Check that the folder exists and that you may enter it.",
    )


def unsuccessful(name: str, command: str, workdir: Path, status: int, output: CommandOutput) -> BuildFailed:
    """Return the error of a command that ended with a status other than 0, or too early."""
    ending = f"failed with exit status {status}" if status >= 0 else f"was ended by signal {-status}"
    with contextlib.suppress(ValueError):
        ending = f"was ended by {signal.Signals(-status).name}"
    killed = "SIGKILL often means that the machine ran out of memory."
    hints = {
        127: f"A command in it was not found: install it, or correct the line. It runs in {workdir}.",
        126: f"A file in it is not executable: `chmod +x` it. It runs in {workdir}.",
        128 + signal.SIGKILL: killed,
        -signal.SIGKILL: killed,
    }
    hint = hints.get(status, f"Run it by hand in {workdir} to see more.")
    message = f"{name} {ending}: {command}"
    return BuildFailed(message, hint, output=output.tail, reported=output.reported)
