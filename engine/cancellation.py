"""Cancellation of asyncio tasks, and protection from it."""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")

REPEAT_SECONDS = 0.5
"""Longer than a task needs to clean up."""


async def cancel(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks until they end: `wait_for` of Python 3.11 loses a cancellation when its work is done."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=REPEAT_SECONDS)


async def finish(job: "asyncio.Future[_T]") -> _T:
    """Return the result of a job. A caller that is canceled, however often, waits until the job ends."""
    canceled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.shield(job)
        except asyncio.CancelledError as error:
            canceled = error
        except BaseException:
            break
    if canceled is not None:
        raise canceled
    return job.result()
