"""Signals that stop a command that serves."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(handler: Callable[[], object]) -> None:
    """Call a function on SIGTERM, on Ctrl+C, and when the terminal closes, unless that signal is ignored."""
    on_stop_signal(lambda _: handler())


def on_stop_signal(handler: Callable[[int], object]) -> None:
    """Call a function with the number of each of these signals."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handler, number)
