"""Blocking calls of one project leave threads to others, and to the event loop's own calls."""

import asyncio
import os
import threading

import pytest

from engine.control.project_threads import MAX_WAITING, PER_PROJECT, ProjectThreads
from engine.errors import SvcError


def test_calls_of_one_project_leave_threads_to_others_and_to_the_loop() -> None:
    async def main() -> None:
        threads, release = ProjectThreads("test"), threading.Event()
        count = PER_PROJECT + MAX_WAITING
        slow = [asyncio.create_task(threads.run("greedy", release.wait)) for _ in range(count)]
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
                with pytest.raises(
                    SvcError, match="64 requests to the data of the project are waiting"
                ) as info:
                    await threads.run("greedy", release.wait)
                assert info.value.code == "unavailable"
                assert await threads.run("modest", threading.active_count) > 0
                free = [asyncio.to_thread(os.getpid) for _ in range(50)]
                assert set(await asyncio.gather(*free)) == {os.getpid()}
        finally:
            release.set()
        assert await asyncio.gather(*slow) == [True] * count

    asyncio.run(main())


def test_caller_that_is_canceled_twice_waits_until_its_call_ends() -> None:
    started, release = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(60)

    async def main() -> None:
        caller = asyncio.create_task(ProjectThreads("test").of("shop")(work))
        await asyncio.to_thread(started.wait)
        for _ in range(2):
            caller.cancel()
            done, _ = await asyncio.wait({caller}, timeout=0.05)
            assert not done
        release.set()
        await asyncio.wait({caller})
        assert caller.cancelled()

    try:
        asyncio.run(main())
    finally:
        release.set()
