"""Asyncio tasks: a set of those that run, a few at once, their cancellation, and protection from it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")
_Item = TypeVar("_Item")

REPEAT_SECONDS = 0.5
"""Longer than a task needs to clean up."""


def spawn(tasks: "set[asyncio.Task[_T]]", work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
    """Start a task, which `tasks` has until it ends."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def cancel(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks until they end: `wait_for` of Python 3.11 loses a cancellation when its work is done."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=REPEAT_SECONDS)


async def run_all(step: Callable[[_Item], Awaitable[_T]], items: Iterable[_Item], at_once: int) -> list[_T]:
    """Call a step for each item, a few at once; return the results. The first failure cancels the rest."""
    ordered = list(items)
    results: dict[int, _T] = {}
    remaining = iter(enumerate(ordered))

    async def work() -> None:
        for index, item in remaining:
            results[index] = await step(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(ordered))):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [results[index] for index in range(len(ordered))]


async def finish(job: "asyncio.Future[_T]", on_cancel: Callable[[], object] = lambda: None) -> _T:
    """Return the result of a job. A caller that is canceled, however often, waits until the job ends.

    `on_cancel` may make it end earlier.
    """
    canceled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.shield(job)
        except asyncio.CancelledError as error:
            canceled = error
            on_cancel()
        except BaseException:
            break
    if canceled is not None:
        raise canceled
    return job.result()
