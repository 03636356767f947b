"""Signals that stop a command that serves."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(handler: Callable[[int], object]) -> None:
    """Call a function on SIGTERM, on Ctrl+C, and when the terminal closes, unless that signal is ignored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handler, number)
