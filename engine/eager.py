"""Coroutines that begin at once, and become a task only if they wait.

Unlike the eager tasks of Python 3.12, a coroutine that never waits needs no task at all.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

_NOTHING = object()


def start(coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run a coroutine until it ends or waits; return the task that continues it, `None` if it has ended.

    Up to its first wait it has no current task: `in_task` is for code that needs one. Its errors are raised
    here if they come before.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Started(coroutine, awaited))


async def in_task() -> None:
    """Continue in a task, as `asyncio.timeout` and `asyncio.TaskGroup` require."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


class _Started(Coroutine[Any, Any, None]):
    """A coroutine that has begun: its first step yields what it already waits for."""

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._coroutine = coroutine
        self._awaited = awaited

    def send(self, value: Any) -> Any:
        """Continue the coroutine."""
        awaited, self._awaited = self._awaited, _NOTHING
        return self._coroutine.send(value) if awaited is _NOTHING else awaited

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits."""
        self._awaited = _NOTHING
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the coroutine."""
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()
