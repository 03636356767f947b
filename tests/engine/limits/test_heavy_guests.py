"""Guests that compute for long leave the event loop and the worker threads to other projects."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.manifest.model import Resource
from engine.wasm.capi.wasmtime import Invocation
from engine.wasm.execution.config import MIB
from engine.wasm.execution.execution import LONG_STRETCH_NS, UsualStretch
from engine.wasm.execution.memory_budget import touched_bytes
from engine.wasm.execution.run_state import RunReport
from engine.wasm.execution.runner import Guest, Runner
from tests.engine.exchanges import guest_request
from tests.engine.limits.hosted import until
from tests.engine.wasm.text_guest import artifact

HEAVY = "/G90"
"""Touches 90 MiB, which takes longer than `LONG_STRETCH_NS`."""


def with_guests(cache: Path, test: Callable[[Guest, Guest], Awaitable[None]]) -> None:
    """Run a test with one resource of two projects."""

    async def main() -> None:
        runner = Runner(cache)
        resource = Resource("api", "rust", Path("/"), memory_limit_mb=200)
        try:
            guests = [
                await runner.guest(
                    resource, artifact(cache), {"SVC_PROJECT": name}, fast=False, report=lambda _: None
                )
                for name in ("hog", "other")
            ]
            await test(*guests)
        finally:
            await runner.aclose()

    asyncio.run(main())


async def run(guest: Guest, target: str) -> RunReport:
    return await guest.run(guest_request(target=target))


def test_guest_that_usually_computes_long_begins_in_a_thread(cache: Path) -> None:
    async def test(heavy: Guest, light: Guest) -> None:
        for _ in range(3):
            assert (await run(heavy, HEAVY)).compute_ns > 2 * LONG_STRETCH_NS
        before = touched_bytes()
        for _ in range(5):
            assert (await run(heavy, HEAVY)).outcome == "ok"
        # A run that began on the loop would touch pages there until an epoch of 20 ms ends.
        assert touched_bytes() - before < 2 * MIB
        assert heavy.usual_stretch.long and not light.usual_stretch.long
        for _ in range(30):
            assert (await run(heavy, "/h")).outcome == "ok"
        assert not heavy.usual_stretch.long

    with_guests(cache, test)


def test_usual_stretch_follows_recent_ones() -> None:
    usual = UsualStretch()
    usual.record(10 * LONG_STRETCH_NS)
    usual.record(0)
    assert usual.long
    for _ in range(10):
        usual.record(0)
    assert not usual.long


def test_computing_runs_of_a_project_take_turns_with_another_project(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []
    run_in_thread = Runner.run_in_thread

    def recorded(runner: Runner, project: str, poll: Callable[[], Any]) -> Awaitable[Any]:
        def turn() -> Any:
            turns.append(project)
            return poll()

        return run_in_thread(runner, project, turn)

    monkeypatch.setattr(Runner, "run_in_thread", recorded)

    async def test(hog: Guest, other: Guest) -> None:
        for _ in range(2):
            await run(other, HEAVY)
        endless = [asyncio.create_task(run(hog, "/l")) for _ in range(60)]
        await until(lambda: turns.count("hog") > 60)
        turns.clear()
        assert (await run(other, HEAVY)).outcome == "ok"
        # In one queue, each of its turns would wait for those of 60 others.
        assert turns.count("hog") < 30 * turns.count("other")
        hog.runner.stop_all()
        await asyncio.gather(*endless)

    with_guests(cache, test)


def test_runs_stopped_while_they_wait_for_a_thread_do_not_compute(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll, polled = Invocation.poll, list[Invocation]()

    def recorded(invocation: Invocation) -> bool:
        polled.append(invocation)
        return poll(invocation)

    monkeypatch.setattr(Invocation, "poll", recorded)

    async def test(hog: Guest, other: Guest) -> None:
        endless = [asyncio.create_task(run(hog, "/l")) for _ in range(20)]
        await until(lambda: len(polled) > 100)
        hog.runner.stop_all()
        polled.clear()
        await asyncio.gather(*endless)
        assert len(polled) <= 2  # Each worker thread may have taken one just before.

    with_guests(cache, test)
