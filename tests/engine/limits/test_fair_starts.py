"""Runs of one project that start, resume or end at once do not delay those of another on the event loop."""

import asyncio
import time
from pathlib import Path

from engine.http.exchange import MemoryExchange, Request
from engine.manifest.model import Resource
from engine.wasm.execution.run_state import GuestRequest, RunReport
from engine.wasm.execution.runner import Guest, LoopTurns, Runner
from tests.engine.wasm.text_guest import artifact

HOG_RUNS = 400
WORK_NS = 5_000_000


def burn(nanoseconds: int) -> None:
    """Occupy the event loop's thread."""
    end = time.monotonic_ns() + nanoseconds
    while time.monotonic_ns() < end:
        pass


def test_projects_take_turns_once_guests_have_computed_long() -> None:
    """Each run computes for 5 ms at a time, as the start of a large guest does."""
    order: list[str] = []

    async def run(turns: LoopTurns, project: str) -> None:
        if turns.crowded:
            await turns.wait(project)
        burn(WORK_NS)
        turns.record(WORK_NS)
        order.append(project)

    async def main() -> None:
        turns = LoopTurns()
        hogs = [asyncio.create_task(run(turns, "hog")) for _ in range(60)]
        await asyncio.sleep(0)
        await run(turns, "other")
        canceled = asyncio.create_task(run(turns, "third"))
        await asyncio.sleep(0)
        canceled.cancel()
        await asyncio.gather(*hogs)

    asyncio.run(main())
    assert len(order) == 61 and order.index("other") < 10
    assert "third" not in order


def request() -> GuestRequest:
    headers = [(b"host", b"localhost")]
    return GuestRequest(
        exchange=MemoryExchange(Request(method="GET", scheme="http", path="/", query=b"", headers=headers)),
        method="GET",
        scheme="http",
        authority="localhost",
        target="/i3",  # It makes all of its memory dirty, and then never ends.
        headers=headers,
        env={},
        max_body=0,
        on_line=lambda *_: None,
    )


def test_starts_and_ends_of_many_runs_leave_turns_to_other_projects(cache: Path) -> None:
    async def main() -> tuple[list[float], float]:
        runner = Runner(cache)
        resource = Resource("api", "rust", Path("/"), memory_limit_mb=16, run_limit_secs=2)

        async def guest(project: str) -> Guest:
            environment = {"SVC_PROJECT": project}
            return await runner.guest(
                resource, artifact(cache), environment, fast=False, report=lambda _: None
            )

        hog, other = await guest("hog"), await guest("other")
        delays: list[float] = []

        async def probe(runs: "asyncio.Future[list[RunReport]]") -> None:
            while not runs.done():
                began = time.monotonic()
                hello = request()
                hello.target = "/h"
                assert (await other.run(hello)).outcome == "ok"
                delays.append(time.monotonic() - began)
                await asyncio.sleep(0.01)

        began = time.monotonic()
        try:
            runs = asyncio.gather(*[hog.run(request()) for _ in range(HOG_RUNS)])
            await probe(runs)
            return delays, time.monotonic() - began
        finally:
            await runner.aclose()

    delays, duration = asyncio.run(main())
    assert len(delays) > 3
    assert max(delays) < duration / 2
