"""Build commands of users: shell lines with limits, in their own process group."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from engine.lane import BuildFailed, BuildRequest
from lanes.process import MAX_TAIL_BYTES, OutputLines, Tail, run_group

LIMIT_SECS = 600.0
_REPORTED_LINES = 1000
_MAX_LINE_BYTES = 500
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


class _Output:
    """Output of a command: lines as they arrive, and its last `MAX_TAIL_BYTES` bytes."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tail = Tail()
        self._lines = OutputLines(self._say, _MAX_LINE_BYTES)
        self._reported = 0

    def feed(self, block: bytes) -> None:
        self._tail.feed(block)
        if self._reported <= _REPORTED_LINES:
            self._lines.feed(block.replace(b"\r", b"\n"))

    def close(self) -> None:
        self._lines.close()

    def _say(self, line: bytes) -> None:
        text = _plain(line[:_MAX_LINE_BYTES])
        if not text.strip() or self._reported > _REPORTED_LINES:
            return
        self._reported += 1
        self._report(text if self._reported <= _REPORTED_LINES else "… (more output, not shown)")

    @property
    def tail(self) -> str:
        """The end of the output as text, without an incomplete first line."""
        tail = bytes(self._tail)
        text = _plain(tail.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return text.partition("\n")[2] if len(tail) == MAX_TAIL_BYTES and "\n" in text else text


def _plain(data: bytes) -> str:
    """Decode output and remove colors, cursor movements and control characters."""
    return _CONTROL.sub("", data.decode(errors="replace"))


async def run_build(request: BuildRequest) -> None:
    """Run the `build` command of a resource; the caller holds its `exclusive` lock.

    Raises `BuildFailed`, also if the command made `output` a symlink out of the project folder.
    """
    resource, output = request.resource, request.resource.output
    assert resource.build is not None and output is not None  # guaranteed by manifest validation
    await run_command(
        resource.build,
        name=f"the build command of resource {resource.name}",
        workdir=resource.workdir,
        report=request.report,
    )
    # Unlike `Path.resolve`, `realpath` accepts a loop of symlinks in every version of Python.
    if not Path(os.path.realpath(output)).is_relative_to(os.path.realpath(request.root)):
        raise BuildFailed(
            f'resource {resource.name}: "{request.display_path(output)}" is outside the project folder',
            "Remove the symlink, and correct `build` so that it writes inside the project folder.",
        )


async def run_command(
    command: str,
    *,
    name: str,
    workdir: Path,
    report: Callable[[str], None],
    limit_secs: float = LIMIT_SECS,
) -> str:
    """Run a shell command in `workdir`; return the end of its output.

    `name` describes it in errors ("the build command of resource front"). `report` receives its first 1000
    lines, stdout and stderr merged. Standard input is empty. Its group is killed at its end.
    Raises `BuildFailed` with the last 64 KiB of output if it fails, exceeds `limit_secs` or cannot start.
    """
    output = _Output(report)
    try:
        async with asyncio.timeout(limit_secs):
            status = await run_group(command, workdir, output.feed)
    except TimeoutError:
        raise BuildFailed(
            f"{name} did not end within {limit_secs:g} seconds and was stopped: {command}",
            "A build command must exit. Remove options that watch files or start a server.",
            output=output.tail,
        ) from None
    except OSError as error:
        path = error.filename or workdir
        raise BuildFailed(
            f"{name} cannot start in {workdir}: {path}: {error.strerror or error}",
            "Check that the folder exists and that you may enter it.",
        ) from error
    output.close()
    if status:
        raise BuildFailed(f"{name} {_ending(status)}: {command}", _hint(status, workdir), output=output.tail)
    return output.tail


def _ending(status: int) -> str:
    if status >= 0:
        return f"failed with exit status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


def _hint(status: int, workdir: Path) -> str:
    if status == 127:
        return f"A command in it was not found: install it, or correct the line. It runs in {workdir}."
    if status == 126:
        return f"A file in it is not executable: `chmod +x` it. It runs in {workdir}."
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "SIGKILL often means that the machine ran out of memory."
    return f"Run it by hand in {workdir} to see more."
