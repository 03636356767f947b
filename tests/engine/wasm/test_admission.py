"""Admission of requests to instances while all instances are busy."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.artifact import ComponentArtifact
from engine.http.exchange import Disconnected
from engine.wasm.execution.config import PoolSettings
from engine.wasm.execution.memory_budget import MemoryBudget, MemoryProfile, RunMemory
from engine.wasm.execution.pool import ClientDisconnected, ComponentUsage, Pool
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
Serve = Callable[..., Any]


@pytest.fixture
def one_slot(serve: Serve) -> Serve:
    """Return `one(body)`: run `await body(guest)` on a runner with one slot and a queue."""

    def start(body: Callable[..., Any], *, queue: int = 1) -> Any:
        pool = PoolSettings(instances=1, warm=0)
        return serve(lambda guest, runner: body(guest), pool=pool, queue=queue)

    return start


class Streaming:
    """A run that holds the only slot until its client disconnects."""

    def __init__(self, guest: Any) -> None:
        self.started = asyncio.Event()
        self.leave = asyncio.Event()

        async def begin() -> None:
            self.started.set()

        self.call = asyncio.create_task(Client(leave=self.leave, pause=begin).call(guest, "/forever"))


async def queued(guest: Any, client: Client | None = None, target: str = "/hello") -> asyncio.Task[Answer]:
    """Start a call and let it advance as far as it can."""
    call = asyncio.create_task((client or Client()).call(guest, target, "POST" if client else "GET"))
    for _ in range(20):
        await asyncio.sleep(0)
    return call


def test_queue_is_first_in_first_out(one_slot: Serve) -> None:
    async def body(guest: Any) -> list[int]:
        holder, order = Streaming(guest), []
        await holder.started.wait()
        calls = [await queued(guest) for _ in range(6)]
        for number, call in enumerate(calls):
            call.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
        holder.leave.set()
        await asyncio.gather(*calls)
        await asyncio.sleep(0)
        return order

    assert one_slot(body, queue=6) == [0, 1, 2, 3, 4, 5]


def test_queued_client_disconnect_frees_place_at_once(one_slot: Serve) -> None:
    async def body(guest: Any) -> list[str]:
        holder = Streaming(guest)
        await holder.started.wait()
        leave = asyncio.Event()
        waiting = await queued(guest, Client(leave=leave))
        refused = (await (await queued(guest))).report.outcome
        leave.set()
        report = (await asyncio.wait_for(waiting, 60)).report
        assert not holder.call.done() and report.status is None
        after = await queued(guest)
        holder.leave.set()
        (wait,) = (await after).calls
        assert (wait.kind, wait.code) == ("wait", "") and wait.wall_ns > 0
        return [refused, report.outcome, (await after).report.outcome]

    assert one_slot(body) == ["overloaded", "client-gone", "ok"]


def test_canceled_queued_request_releases_place_and_slot(one_slot: Serve) -> None:
    async def body(guest: Any) -> list[str]:
        holder = Streaming(guest)
        await holder.started.wait()
        for _ in range(3):
            waiting = await queued(guest)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        waiting = await queued(guest)
        holder.leave.set()
        await holder.call
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return [(await Client().call(guest, "/hello")).report.outcome for _ in range(3)]

    assert one_slot(body) == ["ok"] * 3


def test_project_with_endless_runs_does_not_starve_others(serve: Serve, artifact: ComponentArtifact) -> None:
    async def body(slow: Any, runner: Any) -> tuple[int, list[str]]:
        quick = await runner.guest(
            slow.resource, artifact, {"SVC_PROJECT": "other"}, fast=True, report=lambda line: None
        )
        holders = [Streaming(slow) for _ in range(7)]
        for holder in holders:
            await holder.started.wait()
        crowd = [await queued(slow) for _ in range(3)]
        answers = [(await Client().call(quick, "/hello")).report.outcome for _ in range(3)]
        waiting = sum(not call.done() for call in crowd)
        for holder in holders:
            holder.leave.set()
        answers += [(await call).report.outcome for call in crowd]
        await asyncio.gather(*[holder.call for holder in holders])
        return waiting, answers

    assert serve(body, pool=PoolSettings(instances=8, warm=1)) == (3, ["ok"] * 6)


@pytest.mark.parametrize("size", [1, 1000, 50_000])
def test_queued_upload_arrives_complete(one_slot: Serve, size: int) -> None:
    pieces = [bytes([number]) * size for number in range(20)]

    async def body(guest: Any) -> Answer:
        holder = Streaming(guest)
        await holder.started.wait()
        waiting = await queued(guest, Client(pieces), "/echo")
        holder.leave.set()
        return await waiting

    answer = one_slot(body)
    assert answer.body == b"".join(pieces)
    assert answer.report.bytes_in == 20 * size


def test_acquire_raises_when_the_client_disconnects_and_frees_its_place() -> None:
    async def wait() -> int | None:
        pool, disconnected, use = (
            Pool(PoolSettings(instances=1, warm=0), 1, MemoryBudget(1 << 40)),
            Disconnected(),
            ComponentUsage(),
        )
        memory = RunMemory(MemoryProfile(0))
        kind = pool.try_acquire("test", use, memory)
        waiting = asyncio.create_task(pool.acquire("test", use, memory, disconnected))
        await asyncio.sleep(0)
        assert await pool.acquire("test", use, memory, Disconnected()) is None
        disconnected.set()
        with pytest.raises(ClientDisconnected):
            await asyncio.wait_for(waiting, 60)
        assert kind is not None
        pool.release(kind, "test", memory)
        return pool.try_acquire("test", use, memory)

    assert asyncio.run(wait()) == 0
