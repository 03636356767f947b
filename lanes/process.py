"""Tools run in their own process group, which is killed as a whole on cancellation."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from lanes.process_group import Tail

NICENESS = 10


async def run(
    command: Sequence[str], folder: Path, *, environ: Mapping[str, str] | None = None, nice: bool = False
) -> tuple[int, str]:
    """Run a command; return its exit status and the last 64 KiB of its output."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=(lambda: os.nice(NICENESS)) if nice else None,
    )
    printed = Tail()
    try:
        assert process.stdout is not None
        while data := await process.stdout.read(1 << 16):
            printed.feed(data)
        code = await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    return code, printed.text
