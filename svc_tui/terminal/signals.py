"""Signals that stop a command that serves, or that it forwards to another one."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine.errors import InvalidUsage


def on_stop(handler: Callable[[int], object]) -> None:
    """Call a function on SIGTERM, on Ctrl+C, and when the terminal closes, unless that signal is ignored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handler, number)


async def run_command(
    command: Sequence[str], folder: Path, environ: dict[str, str], signals: "asyncio.Queue[int]"
) -> int:
    """Run a command in a folder, forward the signals of the queue to it, and return its exit code.

    Raises `InvalidUsage` if it cannot be started.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environ)
    except OSError as error:
        raise InvalidUsage(f"cannot run {command[0]}: {error.strerror}", "svc test -- npm test") from error

    async def forward() -> None:
        while number := await signals.get():
            # The terminal sends Ctrl+C to the command, too.
            if number != signal.SIGINT or not os.isatty(0) or os.tcgetpgrp(0) != os.getpgrp():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, number)  # `send_signal` may reap the command before asyncio does.

    forwarding = asyncio.ensure_future(forward())
    code = await process.wait()
    forwarding.cancel()
    return code if code >= 0 else 128 - code
