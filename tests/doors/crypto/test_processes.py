"""Processes of the crypto Door: limits, turns of projects, and the end of work without a caller."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from doors.crypto import door
from doors.crypto.door import CryptoDoor, ProcessPool
from doors.crypto.job import CryptoProblem
from engine.door import DoorRequest, DoorResponse, OpenDoor
from tests.doors.crypto.crypto_door import Budget, answered, opened, request

PBKDF2 = {"algorithm": "PBKDF2", "hash": "SHA-256", "key": "", "salt": "", "length": 32}


def endless(budget: Budget | None = None) -> DoorRequest:
    return request("derive", {**PBKDF2, "iterations": 1_000_000_000}, budget or Budget(3_600))


def short() -> DoorRequest:
    return request("derive", {**PBKDF2, "iterations": 10_000})


def processes() -> set[int]:
    """The processes of operations that this one started."""
    tasks = Path("/proc/self/task").iterdir()
    found = {pid for task in tasks for pid in content(task / "children").split()}
    return {int(pid) for pid in found if "doors.crypto.process" in content(Path(f"/proc/{pid}/cmdline"))}


def content(path: Path) -> str:
    """Return what the system says of a thread or process, empty if it has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        for _ in iter(condition, True):
            await asyncio.sleep(0.01)


async def computing(count: int) -> None:
    """Wait until processes of this number compute."""
    await until(lambda: len([each for each in processes() if cpu_ticks(each) > 50]) == count)


def begun(door: OpenDoor, budget: Budget | None = None) -> "asyncio.Task[DoorResponse]":
    """An endless operation of a Door that has answered before."""
    answer = door.answer(endless(budget))
    assert isinstance(answer, asyncio.Task)
    return answer


def with_door(body: Callable[[CryptoDoor, OpenDoor], Coroutine[Any, Any, None]]) -> None:
    """Run `body` with a Door, open for a project that it has answered."""

    async def main() -> None:
        kind = CryptoDoor()
        door = opened(door=kind)
        try:
            assert (await answered(door, short())).status == 200
            await body(kind, door)
        finally:
            await door.aclose()
        assert processes() == set()

    asyncio.run(main())


def test_end_of_the_caller_ends_the_operation_and_frees_its_turn() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        running, waiting = begun(door), begun(door)
        await computing(1)
        for task in (waiting, running):
            task.cancel()
        assert (await answered(door, short())).status == 200
        assert running.cancelled() and waiting.cancelled()
        assert len(processes()) == 1

    with_door(body)


def test_closed_door_ends_operations() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        running = begun(door)
        await computing(1)
        await door.aclose()
        assert running.cancelled()

    with_door(body)


def test_endless_operations_of_two_projects_leave_others_their_turns() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        second, third = opened("second", kind), opened("third", kind)
        assert (await answered(second, short())).status == 200
        running = [begun(door), begun(second)]
        await computing(2)
        response = await answered(third, request("password/hash", {"password": "a"}, Budget(600)))
        assert response.status == 200
        assert not any(task.done() for task in running)
        await second.aclose()

    with_door(body)


def test_started_operation_is_charged_before_its_end_and_a_waiting_one_is_not() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        budgets = [Budget(3_600), Budget(3_600)]
        for budget in budgets:
            begun(door, budget)
        await computing(1)
        started, waiting = budgets
        assert started.door_cpu_ns > 0 and waiting.door_cpu_ns == 0

    with_door(body)


def test_processes_without_work_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "IDLE_SECONDS", 0)

    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        assert (await answered(door, short())).status == 200
        await until(lambda: not processes())

    with_door(body)


def test_process_that_ended_without_work_is_replaced() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        (process,) = processes()
        os.kill(process, signal.SIGKILL)
        (idle,) = kind._pool._idle
        await until(idle.stdout.at_eof)
        assert (await answered(door, short())).status == 200

    with_door(body)


def test_process_that_ends_at_work_is_an_error_of_the_door() -> None:
    async def body(kind: CryptoDoor, door: OpenDoor) -> None:
        running = begun(door)
        await computing(1)
        (process,) = processes()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="of /v1/derive ended with status -9"):
            await running

    with_door(body)


def test_cpu_time_of_an_operation_is_limited() -> None:
    async def main() -> None:
        with pytest.raises(CryptoProblem, match="the operation takes longer than the request may"):
            await ProcessPool(1, 1, 1).compute(endless(), seconds=1, memory=0)

    asyncio.run(main())


def test_memory_of_an_operation_is_limited() -> None:
    gibibyte = {"algorithm": "scrypt", "key": "", "salt": "", "length": 1, "n": 1 << 20, "r": 8, "p": 1}

    async def main() -> DoorResponse:
        processes = ProcessPool(1, 1, 1)
        response, _ = await processes.compute(request("derive", gibibyte), seconds=600, memory=1 << 20)
        await processes.end_idle()
        return response

    document = json.loads(asyncio.run(main()).body)
    assert document["code"] == "operation-error"
