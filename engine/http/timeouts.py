"""How long a connection may have no request under way. Owns that timer; the server ends connections."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

IDLE_SECONDS = 75
HEAD_SECONDS = 20.0
"""How long the head of a request may take to come, from its first byte on; of HTTP/2, a block of fields."""


class Idle:
    """Ends a connection that has nothing to do for long, or whose client takes long to say what."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = False
        self._since = 0.0

    async def restart(self, _group: Any, _action: Callable[[], Awaitable[None]]) -> None:
        """Begin to wait anew."""
        self._cancel()
        self.begin()

    def begin(self) -> None:
        """Wait from now on, unless it waits."""
        if self._timer is not None:
            return
        self._since = self._loop.time()
        self._timer = self._loop.call_later(IDLE_SECONDS, self._act)

    def begin_head(self) -> None:
        """Note that a request's head has begun to come; no further byte of it gives it more time."""
        if self._timer is not None and not self._in_head:
            self._cancel()
            self._in_head = True
            self._timer = self._loop.call_later(HEAD_SECONDS, self._act)

    def end_head(self) -> None:
        """Note that nothing is half said; whoever says no more has no more time than there was."""
        if self._in_head:
            self._cancel()
            self._timer = self._loop.call_at(self._since + IDLE_SECONDS, self._act)

    async def stop(self) -> None:
        """Wait no longer: there is something to do."""
        self._cancel()

    def expire(self) -> None:
        """Act now, if it is idle."""
        if self._timer is not None:
            self._cancel()
            self._act()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_head = False
