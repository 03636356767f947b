"""Schedules over simulated days: clock changes, kills, two processes, overlaps, downtime, and pauses."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from engine.bucket.protocols import BucketClosed
from engine.cancellation import cancel
from engine.errors import SvcError
from engine.gateway.app import Gateway, GatewaySettings
from engine.gateway.routes import RouteTable
from engine.manifest.schedules import Schedule
from engine.timeline.record import Record, RequestRecord, utc
from engine.wasm.execution.run_state import GuestRequest, RunReport
from tests.engine.gateway.serving import Scripted, reply
from tests.engine.schedules.world import AUTUMN, SPRING, World, expected, run, shop


@pytest.mark.parametrize("begin", [SPRING, AUTUMN])
def test_each_occurrence_of_48_hours_starts_once_on_two_processes(tmp_path: Path, begin: str) -> None:
    async def scenario() -> None:
        world = World(tmp_path, begin)
        first = int(world.now)
        async with world.process("a") as one, world.process("b") as other:
            await asyncio.gather(one.tick(), other.tick())
            for _ in range(48 * 12):
                world.now += 300
                await asyncio.gather(one.tick(), other.tick())
        assert Counter(world.started) == Counter(expected(first, int(world.now)))

    run(scenario)


def test_kills_and_jumps_of_the_clock_start_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, choose, kills, jumps = World(tmp_path), random.Random(41), 0, 0
        first = int(world.now)
        while world.now < first + 48 * 3600:
            async with world.process("a") as one, world.process("b") as other:
                for _ in range(choose.randrange(60, 200)):
                    world.now += choose.uniform(1, 55)
                    await asyncio.gather(one.tick(), other.tick())
                world.now += choose.uniform(1, 55)
                ticks = [asyncio.create_task(each.scheduler.tick()) for each in (one, other)]
                for _ in range(choose.randrange(12)):
                    await asyncio.sleep(0)
                await cancel(ticks)
                kills += 1
            if kills % 5 == 0:
                world.now += -7200 if jumps % 2 else 7200
                jumps += 1
        counts = Counter(world.started)
        assert not [each for each in counts if counts[each] > 1]
        missing = expected(first, int(world.now)) - set(counts)
        # Two hours have at most eleven occurrences. Of those that the clock passed over, the last may start.
        lost = sum("was interrupted" in text for text in world.texts) + (jumps + 1) // 2 * 11
        assert jumps > 2 and len(missing) <= lost < len(counts)

    run(scenario)


def test_claimed_run_that_was_killed_is_not_started_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h", catch_up=True))
        async with world.process() as one:
            await one.tick()
            world.now += 3600
            world.finish.clear()
            await one.tick()
            await asyncio.sleep(0)
            assert len(world.started) == 1
        world.finish.set()
        async with world.process() as other:
            await other.tick()
            (planned,) = await other.scheduler.planned(world.project)
            assert planned.last is not None and planned.last.state == "interrupted"
            assert planned.next == utc(int(world.now) + 3600)
        assert len(world.started) == 1
        assert "was interrupted; svc does not start it again" in world.texts[-1]

    run(scenario)


def test_schedule_that_fails_three_times_in_a_row_is_an_alert_until_it_succeeds(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))

        async def hours(count: int) -> list[str]:
            for _ in range(count):
                world.now += 3600
                await one.tick()
                await one.tick()
            return list(world.alerts.values())

        world.status = 500
        async with world.process() as one:
            await one.tick()
            assert await hours(2) == [""]
            world.status = 204
            await hours(1)
            world.status = 500
            assert await hours(2) == [""]
            failing = "the schedule /poll of worker failed 3 times in a row"
            assert await hours(1) == [failing]
        world.alerts.clear()
        async with world.process() as one:  # A restart does not end it.
            await one.tick()
            assert list(world.alerts.values()) == [failing]
            world.status = 204
            assert await hours(1) == [""]

    run(scenario)


def test_alert_of_a_schedule_ends_when_it_is_removed_and_belongs_to_one_node(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))
        world.status = 500
        async with world.process("a") as one, world.process("b") as other:
            for _ in range(5):
                await one.tick()
                world.now += 3600
            await one.tick()
            assert all(world.alerts.values())
            world.alerts.clear()
            await other.tick()
            assert not any(world.alerts.values())
            world.project = shop()
            world.alerts.clear()
            await one.tick()
            assert list(world.alerts.values()) == [""]

    run(scenario)


@pytest.mark.parametrize(("catch_up", "count"), [(False, 0), (True, 1)])
def test_downtime_is_caught_up_once_if_asked_for(tmp_path: Path, catch_up: bool, count: int) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h", catch_up=catch_up))
        async with world.process() as one:
            await one.tick()
        world.now += 5 * 3600 + 600
        async with world.process() as other:
            await other.tick()
            await other.tick()
        assert world.started == [("/poll", "2026-03-28T17:00:00Z")] * count
        assert any("was missed" in text for text in world.texts) is not catch_up

    run(scenario)


def test_bucket_that_stays_unusable_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))
        async with world.process() as process:
            await process.kill()
            for _ in range(3):
                await process.tick()
                world.now += 3600
        assert [record.getMessage() for record in caplog.records] == [
            f"the schedules of shop do not run: {BucketClosed()}"
        ]

    run(scenario)


def test_restart_of_less_than_a_minute_misses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))
        async with world.process() as one:
            await one.tick()
        world.now += 3600 + 55
        async with world.process() as other:
            await other.tick()
        assert world.started == [("/poll", "2026-03-28T13:00:00Z")]

    run(scenario)


@pytest.mark.parametrize(
    ("overlap", "while_running", "after"), [("skip", 1, 1), ("queue", 1, 2), ("allow", 3, 3)]
)
def test_overlap(tmp_path: Path, overlap: str, while_running: int, after: int) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1m", overlap=overlap))  # type: ignore[arg-type]
        async with world.process() as one:
            await one.tick()
            world.finish.clear()
            for _ in range(3):
                world.now += 60
                await one.tick()
                await asyncio.sleep(0)
            assert len(world.started) == while_running
            world.finish.set()
            for _ in range(3):
                await one.tick()
        assert len(world.started) == after
        assert sum("skipped" in text for text in world.texts) == {"skip": 2, "queue": 1, "allow": 0}[overlap]

    run(scenario)


def test_clock_that_was_days_ahead_does_not_stop_schedules(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))
        async with world.process() as one:
            world.now += 30 * 86400
            await one.tick()
            world.now -= 30 * 86400
            await one.tick()
            world.now += 3600
            await one.tick()
        assert world.started == [("/poll", "2026-03-28T13:00:00Z")]

    run(scenario)


def test_pause_run_and_resume(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h", catch_up=True))
        async with world.process() as one:
            await one.tick()
            await one.scheduler.pause(world.project, "worker", "/poll", paused=True)
            world.now += 7200
            await one.tick()
            assert world.started == []
            result = await one.scheduler.run_now(world.project, "worker", "/poll")
            assert (result.state, result.status) == ("succeeded", 204)
            await one.scheduler.pause(world.project, "worker", "/poll", paused=False)
            await one.tick()
            assert len(world.started) == 1
            (planned,) = await one.scheduler.planned(world.project)
            assert planned.next == utc(int(world.now) + 3600) and planned.last == result
            with pytest.raises(SvcError, match="shop has no schedule /x of worker"):
                await one.scheduler.run_now(world.project, "worker", "/x")
            world.finish.clear()
            running = asyncio.create_task(one.scheduler.run_now(world.project, "worker", "/poll"))
            await world.begun.wait()
            with pytest.raises(SvcError, match="is running"):
                await one.scheduler.run_now(world.project, "worker", "/poll")
            world.finish.set()
            await running

    run(scenario)


def test_changed_times_begin_at_the_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, SPRING, Schedule("/poll", "every 2h", catch_up=True))
        async with world.process() as one:
            await one.tick()
            world.now += 7200 - 1
            world.project = shop(Schedule("/poll", "every 1h", catch_up=True))
            await one.tick()
            assert world.started == []
            world.now += 1
            await one.tick()
        assert world.started == [("/poll", "2026-03-28T14:00:00Z")]

    run(scenario)


def test_run_is_a_request_of_a_private_resource_with_fields_that_only_svc_sends(tmp_path: Path) -> None:
    async def scenario() -> None:
        received: list[GuestRequest] = []

        async def answer(request: GuestRequest) -> RunReport:
            received.append(request)
            return await reply(request, b"no", 500)

        world = World(tmp_path, SPRING, Schedule("/poll", "every 1h"))
        table = RouteTable.build(world.project, {"worker": Scripted(answer)}, domain="localhost")
        gateway = Gateway(lambda: table, lambda _: world.timeline, GatewaySettings())
        world.send = gateway  # type: ignore[assignment,method-assign]
        records: list[Record] = []
        world.timeline.subscribe(records.append)
        async with world.process() as one:
            await one.tick()
            world.now += 3600
            await one.tick()
            (planned,) = await one.scheduler.planned(world.project)
        (request,) = received
        fields = dict(request.headers)
        assert (request.method, request.target) == ("POST", "/poll")
        assert request.authority == "worker--shop.svc.internal"
        assert fields[b"x-svc-schedule"] == b"/poll"
        assert fields[b"x-svc-scheduled-time"] == b"2026-03-28T13:00:00Z"
        last = planned.last
        assert last is not None and (last.state, last.status) == ("failed", 500)
        assert fields[b"x-svc-run-id"] == last.request.encode()
        (span,) = [each for each in records if isinstance(each, RequestRecord)]
        assert (span.request_id, span.resource, span.status) == (last.request, "worker", 500)
        assert world.texts == [
            "schedule /poll of 2026-03-28T13:00:00Z",
            "schedule /poll failed with status 500",
        ]

    run(scenario)
