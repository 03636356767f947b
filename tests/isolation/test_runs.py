"""Isolation between runs, in warm slots and in cold ones."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.wasm.execution.config import PoolSettings
from tests.engine.wasm.text_guest import component, serve
from tests.support.examples import examples
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
ENDS = {"well": "0", "with a trap": "1", "with an exit": "2", "killed": "3", "out of stack": "4"}
COLD, WARM = PoolSettings(instances=1, warm=0), PoolSettings(instances=1, warm=1)
HOSTED = pytest.mark.parametrize("hosted", [False, True], ids=["pooled", "hosted"])
"""Whether wasmtime maps the guest's memory or this host does."""
SLOTS = 8
"""More runs than slots, so that each slot is reused."""


@HOSTED
@pytest.mark.parametrize("pool", [COLD, WARM], ids=["cold", "warm"])
@pytest.mark.parametrize("fast", [True, False], ids=["baseline", "optimised"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_memory_globals_and_tables_are_fresh_per_run(
    cache: Path, pool: PoolSettings, fast: bool, end: str, hosted: bool
) -> None:
    """The guest reports leftover state, then changes everything, and ends in one of five ways."""

    async def test(guest: Any, _runner: Any) -> list[Answer]:
        return [await Client().call(guest, f"/i{end}") for _ in range(2 if end == "3" else SLOTS)]

    limit, data = 0.2 if end == "3" else 30, component(hosted=hosted)
    answers = serve(cache, test, pool=pool, fast=fast, data=data, run_limit_secs=limit)
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"")] * len(answers)
    expected = {"0": "ok", "3": "run-limit"}.get(end, "guest-failed")
    assert {answer.report.outcome for answer in answers} == {expected}


@HOSTED
def test_guest_detects_leftover_state(cache: Path, hosted: bool) -> None:
    """Proves that the test above can fail: within one run, changed state is detected."""

    async def test(guest: Any, _runner: Any) -> bytes:
        assert [program.hosted for program in guest.programs] == [hosted, hosted]
        return (await Client().call(guest, "/j")).body

    assert serve(cache, test, data=component(hosted=hosted)) == b"migxt"


@HOSTED
@settings(max_examples=examples(3), deadline=None)
@given(
    ends=st.lists(st.sampled_from("01224l"), min_size=8, max_size=60),
    at_once=st.integers(1, 8),
    warm=st.integers(0, 4),
    fast=st.booleans(),
)
def test_every_run_begins_with_the_same_memory(
    cache: Path, hosted: bool, ends: list[str], at_once: int, warm: int, fast: bool
) -> None:
    """Runs end in any order of ways; `l` is a client that leaves while the guest computes for ever."""

    async def test(guest: Any, _runner: Any) -> list[Answer]:
        free = asyncio.Semaphore(at_once)

        async def one(end: str) -> Answer:
            async with free:
                leaves = Client(leave_after=1) if end == "l" else Client()
                return await leaves.call(guest, f"/I{'3' if end == 'l' else end}")

        return await asyncio.gather(*map(one, ends))

    pool, data = PoolSettings(instances=4, warm=warm), component(hosted=hosted)
    answers = serve(cache, test, pool=pool, fast=fast, data=data, memory_limit_mb=16)
    checksums: dict[str, set[bytes]] = {}
    for end, answer in zip(ends, answers, strict=True):
        checksums.setdefault(end, set()).add(answer.body)
    assert all(len(bodies) == 1 and len(*bodies) == 8 for bodies in checksums.values()), checksums


@HOSTED
def test_concurrent_runs_are_isolated(cache: Path, hosted: bool) -> None:
    async def test(guest: Any, _runner: Any) -> list[Answer]:
        ends = itertools.islice(itertools.cycle("0124"), 40)
        return await asyncio.gather(*[Client().call(guest, f"/i{end}") for end in ends])

    pool, data = PoolSettings(instances=6, warm=3), component(hosted=hosted)
    answers = serve(cache, test, pool=pool, data=data, memory_limit_mb=16)
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"")] * 40


def test_clock_and_randomness_differ_per_run(cache: Path) -> None:
    async def test(guest: Any, _runner: Any) -> list[bytes]:
        await asyncio.sleep(0.3)
        return [(await Client().call(guest, "/r32")).body for _ in range(20)]

    bodies = serve(cache, test)
    clocks = [int.from_bytes(body[32:], "little") for body in bodies]
    assert len({body[:32] for body in bodies}) == 20
    assert min(clocks) < 100e6, "the clock of a run begins at its start, not at the host's"


@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 1000, 2**31 - 1])
def test_forged_handle_traps(cache: Path, number: int) -> None:
    """Handles are numbers: those of another run do not refer to its resources, even if they are equal."""

    async def test(guest: Any, _runner: Any) -> tuple[Answer, Answer]:
        other = asyncio.create_task(Client().call(guest, "/s500"))
        await asyncio.sleep(0.1)
        thief = await Client().call(guest, f"/d{number}")
        return thief, await other

    thief, other = serve(cache, test)
    assert thief.report.outcome == "guest-failed" and thief.status is None
    assert other.body == b"hello\n" and other.report.outcome == "ok"
