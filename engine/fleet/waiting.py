"""Waiting for a state of the fleet while the service starts."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from engine.bucket.errors import BucketError
from engine.fleet.errors import FleetStopped

POLL_SECONDS = 0.5
SLOW_SECONDS = 10.0
"""After this time of waiting, the log says for what."""


async def wait_until(
    condition: Callable[[], Awaitable[bool]],
    stop: asyncio.Event,
    log: Callable[[str, str], None],
    waiting: str,
) -> None:
    """Wait for a condition, which may raise `BucketError`. Raises `FleetStopped` when `stop` is set.

    `log` takes a level and a line; `waiting` says for what.
    """
    begin, logged = time.monotonic(), False
    while True:
        reason = ""
        try:
            if await condition():
                return
        except BucketError as error:
            reason = f": {error.message}"
        if not logged and time.monotonic() - begin > SLOW_SECONDS:
            log("warning", f"{waiting}{reason}")
            logged = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), POLL_SECONDS)
            raise FleetStopped
