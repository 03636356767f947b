"""Schedules of three nodes on the bucket of a fleet, whose servers are killed in turn."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from engine.bucket.protocols import Bucket
from tests.engine.fleet.cluster import Cluster
from tests.engine.fleet.test_faults import reopened
from tests.engine.schedules.world import World, expected
from tests.support.buckets import Use

pytestmark = pytest.mark.slow
STEP, STEPS = 600, 48 * 6


def test_each_occurrence_starts_on_one_node_while_servers_are_killed(
    cluster: Cluster, use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.fleet.connection.PATIENCE_SECONDS", 60.0)

    async def scenario(bucket: Bucket) -> None:
        world = World(tmp_path)
        first, others = int(world.now), [await reopened(bucket) for _ in range(2)]
        buckets = [bucket, *others]
        nodes = [world.process(name, each.kv) for name, each in zip("abc", buckets, strict=True)]
        async with nodes[0] as one, nodes[1] as two, nodes[2] as three:
            await asyncio.gather(*(each.tick() for each in (one, two, three)))
            for step in range(STEPS):
                world.now += STEP
                if step % (STEPS // 3) == 10:
                    pid = cluster.nodes[step * 3 // STEPS].pid
                    assert pid is not None
                    os.kill(pid, signal.SIGKILL)
                await asyncio.gather(*(each.tick() for each in (one, two, three)))
                if step % (STEPS // 3) == 40:
                    await asyncio.to_thread(cluster.wait)
        for each in others:
            await each.aclose()
        assert Counter(world.started) == Counter(expected(first, int(world.now)))

    use(scenario)
    cluster.wait()
