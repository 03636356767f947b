"""Cancellation of asyncio tasks."""

import asyncio
from collections.abc import Iterable
from typing import Any

REPEAT_SECONDS = 0.5
"""Longer than a task needs to clean up."""


async def cancel(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks until they end: `wait_for` of Python 3.11 loses a cancellation when its work is done."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=REPEAT_SECONDS)
