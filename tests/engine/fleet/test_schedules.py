"""Schedules of three nodes on the bucket of a fleet, whose servers and processes are killed in turn."""

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engine.bucket.protocols import Bucket
from engine.cancellation import cancel
from tests.engine.fleet.cluster import Cluster, pid_of
from tests.engine.fleet.test_faults import reopened
from tests.engine.schedules.world import AUTUMN, SPRING, Process, World, expected
from tests.support.buckets import Use

pytestmark = pytest.mark.slow
STEP, STEPS = 600, 48 * 6
THIRD = STEPS // 3


@pytest.mark.parametrize("begin", [SPRING, pytest.param(AUTUMN, marks=pytest.mark.nightly)])
def test_each_occurrence_starts_on_one_node_while_servers_and_processes_are_killed(
    cluster: Cluster, use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    monkeypatch.setattr("engine.fleet.connection.PATIENCE_SECONDS", 60.0)
    choose = random.Random(41)

    async def scenario(bucket: Bucket) -> None:
        world = World(tmp_path, begin)
        first, others = int(world.now), [await reopened(bucket, cluster) for _ in range(2)]
        buckets = [bucket, *others]
        async with AsyncExitStack() as stack:

            async def start(number: int) -> None:
                process = world.process("abc"[number], buckets[number].kv)
                nodes[number] = await stack.enter_async_context(process)

            nodes = dict[int, Process]()
            for number in range(3):
                await start(number)
            await asyncio.gather(*(each.tick() for each in nodes.values()))
            for step in range(STEPS):
                world.now += STEP
                third, at = divmod(step, THIRD)
                if at == 10:
                    pid = pid_of(cluster.nodes[third])
                    assert pid is not None
                    os.kill(pid, signal.SIGKILL)
                ticks = {number: asyncio.create_task(each.tick()) for number, each in nodes.items()}
                if at % 20 == 15:
                    lost = choose.randrange(3)
                    await asyncio.sleep(choose.uniform(0, 0.01))
                    await cancel([ticks.pop(lost)])
                    await nodes[lost].kill()
                    await start(lost)
                await asyncio.gather(*ticks.values())
                if at == 40:
                    await asyncio.to_thread(cluster.wait)
            await asyncio.gather(*(each.tick() for each in nodes.values()))
        for each in others:
            await each.aclose()
        started = Counter(world.started)
        missing = expected(first, int(world.now)) - set(started)
        assert set(started.values()) == {1} and set(started) <= expected(first, int(world.now))
        # A run that was stored and then killed counts as interrupted, and is reported.
        assert len(missing) <= sum("was interrupted" in text for text in world.texts) < len(started) // 10

    use(scenario)
    cluster.wait()
