"""Metering: a run reports the CPU time and memory that it used."""

import asyncio
import hashlib
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.manifest.model import Resource
from engine.wasm.capi.wasmtime import Invocation
from engine.wasm.execution.run_state import RunReport
from engine.wasm.execution.runner import Guest, Runner
from engine.wasm.weave.weaver import library
from tests.engine.wasm.burner import PAGE, burner
from tests.support.guest_client import Client

pytestmark = [pytest.mark.slow, pytest.mark.alone]
CALIBRATION = 2_000_000
TRIES = 5
Measure = Callable[..., Any]


@pytest.fixture
def measure(cache: Path, tmp_path: Path) -> Measure:
    """Return `measure(body)`: run `await body(run)`; `await run(...)` takes `burner`s options."""

    def start(body: Callable[[Callable[..., Awaitable[RunReport]]], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            runner = Runner(cache)

            async def guest(**options: Any) -> Guest:
                component = burner(**options)
                digest = hashlib.sha256(component).hexdigest()
                file = tmp_path / f"{digest}.wasm"
                file.write_bytes(component)
                resource = Resource("burner", "rust", tmp_path)
                artifact = ComponentArtifact(file, digest)
                return await runner.guest(resource, artifact, {}, fast=False, report=lambda line: None)

            guests: dict[Any, Guest] = {}

            async def run(**options: Any) -> RunReport:
                key = tuple(options.items())
                if key not in guests:
                    guests[key] = await guest(**options)
                return (await Client().call(guests[key], "/")).report

            try:
                return await body(run)
            finally:
                await runner.aclose()

        return asyncio.run(main())

    return start


async def rounds_of(run: Callable[..., Awaitable[RunReport]], nanoseconds: int) -> int:
    """Return the number of rounds that take about this long, by the least CPU time that some took."""
    times = []
    for _ in range(TRIES):
        began = time.process_time_ns()
        await run(rounds=CALIBRATION)
        times.append(time.process_time_ns() - began)
    return int(CALIBRATION * nanoseconds / min(times))


@contextmanager
def python_elsewhere() -> Iterator[None]:
    """Run Python code in another thread, which competes for the interpreter's lock."""
    end = threading.Event()

    def spin() -> None:
        while not end.is_set():
            sum(range(200))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def guests_threads_ns() -> int:
    """Return the CPU time of all threads that run guests: this one and the workers."""
    workers = [each.ident for each in threading.enumerate() if each.name.startswith("guest")]
    clocks = [time.pthread_getcpuclockid(ident) for ident in workers if ident is not None]
    return time.thread_time_ns() + sum(map(time.clock_gettime_ns, clocks))


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The CPU time of each poll by the clock of its thread, which no other thread affects."""
    spent, poll = list[int](), Invocation.poll

    def measured(invocation: Invocation) -> bool:
        began = time.thread_time_ns()
        try:
            return poll(invocation)
        finally:
            spent.append(time.thread_time_ns() - began)

    monkeypatch.setattr(Invocation, "poll", measured)
    return spent


def test_heavy_run_reports_thread_cpu_time(measure: Measure, polls: list[int]) -> None:
    async def body(run: Any) -> tuple[int, int]:
        rounds = await rounds_of(run, 1_000_000_000)
        await run(rounds=rounds, pages=(2, 1))
        polls.clear()
        began = guests_threads_ns()
        report = await run(rounds=rounds, pages=(2, 1))
        return report.compute_ns, guests_threads_ns() - began

    compute, spent = measure(body)
    assert 300_000_000 < compute <= spent
    assert 0.97 <= compute / sum(polls) <= 1.03


def test_cpu_time_scales_with_work(measure: Measure) -> None:
    """The guest's loop has a known cost: no calls, and no branches that depend on data."""

    async def body(run: Any) -> list[float]:
        rounds = await rounds_of(run, 500_000_000)
        shares = []
        for _ in range(TRIES):
            one, four = [(await run(rounds=rounds * times)).compute_ns for times in (1, 4)]
            shares.append(four / one)
        return shares

    assert statistics.median(measure(body)) == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(("burst_ns", "bursts"), [(6_000_000, 60), (300_000, 200)])
def test_light_run_reports_own_cpu_time_under_contention(
    measure: Measure, burst_ns: int, bursts: int, polls: list[int]
) -> None:
    async def body(run: Any) -> list[tuple[int, int]]:
        rounds = await rounds_of(run, burst_ns)
        result = []
        with python_elsewhere():
            for _ in range(TRIES):
                polls.clear()
                report = await run(rounds=rounds, bursts=bursts, wait_ns=1_000_000)
                result.append((report.compute_ns, sum(polls)))
        return result

    result = measure(body)
    assert min(compute for compute, _ in result) > burst_ns * bursts / 3
    assert 0.97 <= statistics.median(compute / spent for compute, spent in result) <= 1.03


def test_concurrent_runs_are_metered_separately(measure: Measure, polls: list[int]) -> None:
    async def body(run: Any) -> tuple[list[int], int]:
        rounds = await rounds_of(run, 200_000_000)
        large, small = {"rounds": rounds, "bursts": 3}, {"rounds": rounds, "bursts": 1}
        await asyncio.gather(run(**large), run(**small))
        polls.clear()
        began = guests_threads_ns()
        reports = await asyncio.gather(*[run(**each) for each in (large, small, large, small)])
        return [report.compute_ns for report in reports], guests_threads_ns() - began

    compute, spent = measure(body)
    assert sum(compute) <= spent
    assert 0.97 <= sum(compute) / sum(polls) <= 1.03
    assert compute[0] + compute[2] == pytest.approx(3 * (compute[1] + compute[3]), rel=0.2)


def test_waiting_run_uses_almost_no_cpu_time(measure: Measure) -> None:
    async def body(run: Any) -> RunReport:
        await run(rounds=1, wait_ns=400_000_000)
        report: RunReport = await run(rounds=1, wait_ns=400_000_000)
        return report

    report = measure(body)
    assert report.wall_ns >= 400_000_000
    assert report.compute_ns < 40_000_000


def test_peak_memory_is_sum_of_memories(measure: Measure) -> None:
    async def body(run: Any) -> list[int | None]:
        return [(await run(rounds=1, pages=pages)).peak_memory for pages in ((1, 1), (5, 1), (3, 9))]

    own = library().pages  # This guest calls nothing, so the library needs no heap.
    assert measure(body) == [(pages + own) * PAGE for pages in (2, 6, 12)]
