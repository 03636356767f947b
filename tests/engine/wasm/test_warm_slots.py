"""The policy for warm slots."""

import pytest

from engine.wasm.execution import pool as module
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.memory_budget import MemoryBudget, MemoryProfile, RunMemory
from engine.wasm.execution.pool import (
    EVICT_IDLE_NS,
    MAX_GAP_NS,
    MAX_WARM,
    PROMOTE_AFTER,
    ComponentUsage,
    Pool,
    WarmSlotPolicy,
)


class Clock:
    """A manual clock in nanoseconds."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "monotonic_ns", clock)
    return clock


def asked(of: WarmSlotPolicy, use: ComponentUsage, times: int = PROMOTE_AFTER) -> list[bool]:
    """Record requests of a component; return whether each should run in a warm slot."""
    return [of.admit(use) for _ in range(times)]


def test_busy_component_becomes_warm(clock: Clock) -> None:
    assert asked(WarmSlotPolicy(), ComponentUsage(), PROMOTE_AFTER + 1) == [False] * (PROMOTE_AFTER - 1) + [
        True,
        True,
    ]


def test_component_with_hosted_memory_stays_warm_beside_any_others(clock: Clock) -> None:
    of, uses = WarmSlotPolicy(), [ComponentUsage(hosted=True) for _ in range(3 * MAX_WARM)]
    for use in uses:
        for _ in range(PROMOTE_AFTER - 1):
            assert not of.admit(use)
            clock.now += 100 * MAX_GAP_NS
        assert of.admit(use)
    clock.now += 100 * EVICT_IDLE_NS
    assert all(map(of.admit, uses))
    assert asked(of, ComponentUsage())[-1]


def test_rarely_used_component_stays_cold(clock: Clock) -> None:
    of, use = WarmSlotPolicy(), ComponentUsage()
    for _ in range(3 * PROMOTE_AFTER):
        clock.now += MAX_GAP_NS
        assert not of.admit(use)


def test_idle_warm_component_stays_while_no_other_needs_its_place(clock: Clock) -> None:
    of, use = WarmSlotPolicy(), ComponentUsage()
    asked(of, use)
    clock.now += 100 * EVICT_IDLE_NS
    assert of.admit(use)


def test_busy_components_above_limit_do_not_evict_each_other(clock: Clock) -> None:
    of, uses = WarmSlotPolicy(), [ComponentUsage() for _ in range(3 * MAX_WARM)]
    for use in uses:
        asked(of, use)
    for _ in range(5):
        clock.now += MAX_GAP_NS - 1
        assert [of.admit(use) for use in uses] == [True] * MAX_WARM + [False] * 2 * MAX_WARM


def test_idle_component_is_evicted_for_busy_one(clock: Clock) -> None:
    of, uses, busy = WarmSlotPolicy(), [ComponentUsage() for _ in range(MAX_WARM)], ComponentUsage()
    for use in uses:
        asked(of, use)
    clock.now += EVICT_IDLE_NS - 1
    for use in uses[1:]:
        of.admit(use)
    assert asked(of, busy)[-1] is False
    clock.now += 1
    assert of.admit(busy)
    assert [of.admit(use) for use in uses] == [False] + [True] * (MAX_WARM - 1)


def test_exhausted_slot_kind_falls_back_to_other_kind() -> None:
    pool, often, seldom = (
        Pool(PoolSettings(instances=4, warm=2), 0, MemoryBudget(1 << 40)),
        ComponentUsage(),
        ComponentUsage(),
    )
    memory = RunMemory(MemoryProfile(0))
    for _ in range(PROMOTE_AFTER):
        slot = pool.try_acquire("one", often, memory)
        assert slot is not None
        pool.release(slot, "one", memory)
    assert [pool.try_acquire("one", often, memory) for _ in range(3)] == [0, 0, 1]
    assert pool.try_acquire("one", seldom, memory) == 1
    pool.release(0, "one", memory)
    assert pool.try_acquire("one", seldom, memory) == 0
