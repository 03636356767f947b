"""Presence of nodes."""

import asyncio

from engine.cancellation import cancel
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.members import Presence
from tests.support.buckets import Use
from tests.support.waiting import until


def test_node_that_starts_is_not_present_yet(use: Use) -> None:
    async def scenario(bucket: JetStreamBucket) -> None:
        states = {"starting": True}
        first, second = (Presence(bucket.connection, bucket.namespace, name) for name in ("n1", "n2"))
        beats = [
            asyncio.create_task(first.run(lambda: {"starting": False})),
            asyncio.create_task(second.run(lambda: states)),
        ]
        try:
            await asyncio.to_thread(until, lambda: bool(first.present(starting=True)))
            assert (first.present(), first.present(starting=True)) == ({"n1"}, {"n2"})
            states["starting"] = False
            await asyncio.to_thread(until, lambda: first.present() == {"n1", "n2"})
            assert not first.present(starting=True)
        finally:
            await cancel(beats)

    use(scenario)
