"""Sharing of a process's slots between projects."""

import asyncio
from collections.abc import Awaitable

import pytest

from engine.http.exchange import Disconnected
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.memory_budget import MemoryBudget, MemoryProfile, RunMemory
from engine.wasm.execution.pool import ComponentUsage, Pool

SLOTS, PLACES = 16, 6
USE = ComponentUsage()
NO_MEMORY = RunMemory(MemoryProfile(0))


def pool(slots: int = SLOTS, places: int = PLACES) -> Pool:
    return Pool(PoolSettings(instances=slots, warm=2), places, MemoryBudget(1 << 40))


def acquire_all(of: Pool, project: str, requests: int = SLOTS) -> list[int]:
    """Acquire all slots available to a project; return their kinds."""
    kinds = [of.try_acquire(project, USE, NO_MEMORY) for _ in range(requests)]
    return [kind for kind in kinds if kind is not None]


async def waiting(of: Pool, project: str) -> "asyncio.Task[int | None]":
    """Queue a request."""
    task = asyncio.create_task(of.acquire(project, USE, NO_MEMORY, Disconnected()))
    await asyncio.sleep(0)
    return task


async def turns(of: Pool, waiting: list[tuple[str, Awaitable[int | None]]], kinds: list[int]) -> list[str]:
    """Release the slots of `hog` one by one; return the project that got each."""
    order: list[str] = []

    async def note(project: str, task: Awaitable[int | None]) -> None:
        assert await task is not None
        order.append(project)

    notes = [asyncio.create_task(note(project, task)) for project, task in waiting]
    for kind in kinds:
        of.release(kind, "hog", NO_MEMORY)
        for _ in range(5):
            await asyncio.sleep(0)
    for each in notes:
        each.cancel()
    await asyncio.gather(*notes, return_exceptions=True)
    return order


def test_single_project_leaves_reserved_slots() -> None:
    shared = pool()
    assert len(acquire_all(shared, "hog")) == SLOTS * 7 // 8
    assert len(acquire_all(shared, "other")) == SLOTS // 8
    assert acquire_all(shared, "third") == []


def test_fewer_than_eight_slots_reserve_none() -> None:
    assert len(acquire_all(pool(7), "hog")) == 7


def test_two_projects_with_half_each_use_all_slots() -> None:
    shared = pool()
    assert [len(acquire_all(shared, name, SLOTS // 2)) for name in ("one", "two")] == [SLOTS // 2] * 2


def test_next_slot_goes_to_project_with_fewest() -> None:
    async def run() -> list[str]:
        shared = pool()
        kinds = acquire_all(shared, "hog") + acquire_all(shared, "some", 2)
        names = ["hog", "some", "none", "hog"]
        return await turns(shared, [(name, await waiting(shared, name)) for name in names], kinds[:6])

    # Between the second and the third, two slots are reserved again.
    assert asyncio.run(run()) == ["none", "some", "hog", "hog"]


def test_projects_with_equal_slots_alternate_in_request_order() -> None:
    async def run() -> list[str]:
        shared = pool()
        kinds = acquire_all(shared, "hog") + acquire_all(shared, "x", 1) + acquire_all(shared, "y", 1)
        names = ["x", "x", "x", "y", "y"]
        return await turns(shared, [(name, await waiting(shared, name)) for name in names], kinds[:5])

    assert asyncio.run(run()) == ["x", "y", "x", "y", "x"]


def test_project_above_half_waits_for_unreserved_slot() -> None:
    async def run() -> tuple[bool, bool]:
        shared = pool()
        kinds = acquire_all(shared, "hog")
        more = await waiting(shared, "hog")
        other = shared.try_acquire("other", USE, NO_MEMORY)
        assert other is not None
        shared.release(other, "other", NO_MEMORY)
        await asyncio.sleep(0)
        before = more.done()
        shared.release(kinds[0], "hog", NO_MEMORY)
        return before, await asyncio.wait_for(more, 60) is not None

    assert asyncio.run(run()) == (False, True)


def test_full_queue_rejects_newest_of_largest_project() -> None:
    async def run() -> list[bool]:
        shared = pool()
        kinds = acquire_all(shared, "hog")
        acquire_all(shared, "another")
        crowd = [await waiting(shared, "hog") for _ in range(PLACES)]
        assert await shared.acquire("hog", USE, NO_MEMORY, Disconnected()) is None
        others = [await waiting(shared, name) for name in ("a", "a", "a", "a", "b")]
        for kind in kinds:
            shared.release(kind, "hog", NO_MEMORY)
        return [kind is None for kind in await asyncio.gather(*crowd, *others)]

    hog, a, b = [False] * 2 + [True] * 4, [False] * 3 + [True], [False]
    assert asyncio.run(run()) == hog + a + b


def test_queue_of_size_zero_rejects() -> None:
    async def run() -> int | None:
        shared = pool(places=0)
        acquire_all(shared, "hog")
        return await shared.acquire("hog", USE, NO_MEMORY, Disconnected())

    assert asyncio.run(run()) is None


@pytest.mark.parametrize("granted", [False, True], ids=["while it waits", "as it gets a slot"])
def test_canceled_waiter_releases_place_and_slot(granted: bool) -> None:
    async def run() -> tuple[int, int | None]:
        shared = pool(1, 1)
        [kind] = acquire_all(shared, "a", 1)
        task = await waiting(shared, "b")
        if granted:
            shared.release(kind, "a", NO_MEMORY)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if granted:
            return len(acquire_all(shared, "c")), None
        following = await waiting(shared, "d")
        shared.release(kind, "a", NO_MEMORY)
        return 1, await asyncio.wait_for(following, 60)

    assert asyncio.run(run()) == (1, None if granted else 0)
