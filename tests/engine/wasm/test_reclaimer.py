"""Release of the memory of finished instances: when, and on which thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine

import pytest
from wasmtime import Engine

from engine.wasm.capi.wasmtime import Store, address
from engine.wasm.execution.reclaimer import MAX_BACKLOG, MAX_HOLD_SECONDS, SMALL_BYTES, Reclaimer

MUCH = SMALL_BYTES + 1
Stores = Callable[[], Store]


class _Watched(Store):
    """A store that records the thread that closes it."""

    __slots__ = ("_closed",)

    def __init__(self, engine: int, closed: list[str]) -> None:
        super().__init__(engine, memory_limit=1 << 20, table_limit=1)
        self._closed = closed

    def close(self) -> None:
        super().close()
        self._closed.append(threading.current_thread().name)


def closing(test: Callable[[Reclaimer, Stores, list[str]], Coroutine[None, None, None]]) -> list[str]:
    """Run a test on a loop; return the threads that closed stores, in order."""
    engine, closed = Engine(), list[str]()

    async def main() -> None:
        reclaimer = Reclaimer()
        try:
            await test(reclaimer, lambda: _Watched(address(engine), closed), closed)
        finally:
            reclaimer.stop()

    asyncio.run(main())
    return closed


async def until(closed: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while len(closed) < count:  # noqa: ASYNC110 - another thread closes them
            await asyncio.sleep(0.001)


def test_small_instance_is_closed_at_once() -> None:
    async def test(reclaimer: Reclaimer, store: Stores, closed: list[str]) -> None:
        reclaimer.close(store(), SMALL_BYTES)
        assert closed == ["MainThread"]

    assert closing(test) == ["MainThread"]


@pytest.mark.parametrize("memory", [MUCH, None])
def test_large_instance_is_closed_during_next_run(memory: int | None) -> None:
    async def test(reclaimer: Reclaimer, store: Stores, closed: list[str]) -> None:
        reclaimer.close(store(), memory)
        assert closed == []
        reclaimer.flush()
        await until(closed, 1)

    assert closing(test) == ["reclaimer"]


def test_held_store_is_closed_after_timeout() -> None:
    async def test(reclaimer: Reclaimer, store: Stores, closed: list[str]) -> None:
        for number in (1, 2):
            reclaimer.close(store(), MUCH)
            await asyncio.sleep(MAX_HOLD_SECONDS / 10)
            await until(closed, number)

    assert closing(test) == ["reclaimer"] * 2


def test_held_stores_are_bounded() -> None:
    async def test(reclaimer: Reclaimer, store: Stores, closed: list[str]) -> None:
        for _ in range(MAX_BACKLOG + 2):
            reclaimer.close(store(), MUCH)
        assert closed == ["MainThread"] * 3

    assert closing(test) == ["MainThread"] * 3 + ["reclaimer"] * (MAX_BACKLOG - 1)
