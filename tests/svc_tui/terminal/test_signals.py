"""Signals that stop a command."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from svc_tui.terminal.signals import on_stop


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    """The default of SIGHUP, which a test runner in the background may ignore."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_calls_the_handler(number: int) -> None:
    async def main() -> None:
        stop = asyncio.Event()
        on_stop(lambda _: stop.set())
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 60)

    asyncio.run(main())


def test_closed_terminal_does_not_stop_a_command_of_nohup() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        on_stop(lambda _: stop.set())
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 60)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asyncio.run(main())
