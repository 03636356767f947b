"""Coroutines that begin at once, and become tasks only if they wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from engine import eager


def test_coroutine_that_never_waits_needs_no_task() -> None:
    tasks = list[asyncio.Task[None] | None]()

    async def work() -> None:
        tasks.append(asyncio.current_task())

    async def main() -> None:
        before = asyncio.all_tasks()
        assert eager.start(work()) is None
        assert asyncio.all_tasks() == before

    asyncio.run(main())
    assert len(tasks) == 1


def test_error_before_the_first_wait_is_raised_at_once() -> None:
    async def work() -> None:
        raise ValueError("early")

    async def main() -> None:
        with pytest.raises(ValueError, match="early"):
            eager.start(work())

    asyncio.run(main())


async def _future(future: "asyncio.Future[str]") -> str:
    return await future


async def _shielded(future: "asyncio.Future[str]") -> str:
    return await asyncio.shield(future)


async def _after_turns(future: "asyncio.Future[str]") -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return await future


async def _in_task(future: "asyncio.Future[str]") -> str:
    await eager.in_task()
    await eager.in_task()
    async with asyncio.timeout(60):
        return await future


Wait = Callable[["asyncio.Future[str]"], Awaitable[str]]
WAITS = [_future, _shielded, _after_turns, _in_task]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_coroutine_that_waits_continues_in_a_task(wait: Wait, turns: int) -> None:
    async def main() -> None:
        future, results = asyncio.get_running_loop().create_future(), list[str]()

        async def work() -> None:
            results.append(await wait(future))
            results.append(await wait(future))

        task = eager.start(work())
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        future.set_result("done")
        await task
        assert results == ["done", "done"]

    asyncio.run(main())


@pytest.mark.parametrize("wait", WAITS)
def test_error_of_what_it_waits_for_is_raised_in_the_coroutine(wait: Wait) -> None:
    async def main() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            with pytest.raises(ValueError, match="late"):
                await wait(future)
            raise KeyError("at the end")

        task = eager.start(work())
        assert task is not None
        future.set_exception(ValueError("late"))
        with pytest.raises(KeyError, match="at the end"):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_cancellation_is_raised_where_the_coroutine_waits(wait: Wait, turns: int) -> None:
    """Also before the first step of its task, when the coroutine has begun already."""

    async def main() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        cleaned = list[str]()

        async def work() -> None:
            try:
                await wait(future)
            finally:
                await asyncio.sleep(0)
                cleaned.append("cleaned")

        task = eager.start(work())
        assert task is not None
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert cleaned == ["cleaned"]

    asyncio.run(main())


def test_task_that_is_destroyed_closes_its_coroutine() -> None:
    closed = list[str]()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append("closed")

    async def main() -> None:
        assert eager.start(work()) is not None

    asyncio.run(main())
    assert closed == ["closed"]
