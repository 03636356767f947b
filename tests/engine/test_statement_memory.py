"""The memory of statements that collect values: measured for each, and limited."""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest

from engine.files import statement_limit, statement_memory
from engine.files.statement_limit import StatementLimit
from engine.files.statement_memory import StatementMemory

LIMIT = 32 << 20
GROWING = """with recursive n(i) as (select 1 union all select i + 1 from n)
    select json_group_array(printf('%.900000c', 'x')) from n"""
SMALL = """with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000)
    select length(json_group_array(i % 2)) from n"""


@contextmanager
def connected(limit: int = LIMIT) -> Iterator[tuple[apsw.Connection, StatementMemory]]:
    connection = apsw.Connection(":memory:")
    memory = StatementMemory(connection, limit)
    try:
        with StatementLimit(connection, math.inf, memory=memory):
            yield connection, memory
    finally:
        connection.close()


@pytest.mark.slow(seconds=8)
def test_growing_statements_are_stopped_and_others_beside_them_are_not() -> None:
    stopped = 0
    done = threading.Event()

    def grow() -> None:
        nonlocal stopped
        with connected() as (connection, memory):
            while not done.is_set():
                with pytest.raises(apsw.InterruptError), memory:
                    connection.execute(GROWING).fetchall()
                assert memory.oversized
                stopped += 1

    threads = [threading.Thread(target=grow) for _ in range(3)]
    apsw.memory_high_water(True)
    with connected() as (connection, memory):
        try:
            for thread in threads:
                thread.start()
            for _ in range(3):
                with memory:
                    assert connection.execute(SMALL).fetchall() == [(6_000_001,)]
                assert not memory.oversized
        finally:
            done.set()
            for thread in threads:
                thread.join()
    assert stopped >= len(threads)
    assert apsw.memory_high_water() < 1 << 30


def test_memory_of_several_turns_is_added() -> None:
    with connected() as (connection, memory), connected() as (other, other_memory):
        done = threading.Event()

        def count() -> None:
            while not done.is_set():
                with other_memory:
                    other.execute(SMALL).fetchall()

        thread = threading.Thread(target=count)
        thread.start()
        try:
            numbers = (
                "with recursive n(i) as (select 1 union all select i + 1 from n) select median(i) from n"
            )
            with pytest.raises(apsw.InterruptError), memory:
                connection.execute(numbers).fetchall()
        finally:
            done.set()
            thread.join()
        assert memory.oversized


def test_turn_of_another_file_is_next(tmp_path: Path) -> None:
    one, two = apsw.Connection(str(tmp_path / "one.db")), apsw.Connection(str(tmp_path / "two.db"))
    order: list[str] = []

    def take(name: str, memory: StatementMemory) -> None:
        with memory:
            order.append(name)

    waiting = [("one", StatementMemory(one)), ("one", StatementMemory(one)), ("two", StatementMemory(two))]
    threads = [threading.Thread(target=take, args=each) for each in waiting]
    with StatementMemory(one):
        for count, thread in enumerate(threads, 2):
            thread.start()
            while len(statement_memory._order) < count:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order[0] == "two"


def test_long_statements_leave_a_processor_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_memory, "STEP_SECONDS", 60)  # A busy machine stretches steps.
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)"
    ended: list[int] = []

    def count(name: str) -> None:
        connection = apsw.Connection(str(tmp_path / name))
        with StatementLimit(connection, math.inf, memory=StatementMemory(connection)):
            ended.append(connection.execute(f"{numbers} select count(*) from n").get)

    processors = os.cpu_count() or 1
    threads = [threading.Thread(target=count, args=[f"{index}.db"]) for index in range(processors + 2)]
    for thread in threads:
        thread.start()
    most = waited = 0
    while any(thread.is_alive() for thread in threads):
        with statement_memory._turn:
            runs = [each._runs for each in statement_memory._order]
        most, waited = max(most, sum(runs)), max(waited, runs.count(False))
        time.sleep(0.001)
    assert ended == [1_000_000] * (processors + 2)
    assert most == max(1, processors - 1) and waited


def test_short_statement_takes_no_turn() -> None:
    with connected() as (connection, _), connected() as (_, holder), holder:
        connection.execute("select 1").fetchall()
        assert statement_memory._order == [holder]


def test_statement_in_long_steps_gives_its_turn_to_others(tmp_path: Path) -> None:
    slow = """with recursive n(i) as (select 1 union all select i + 1 from n)
        select json_group_array(length(hex(randomblob(400000)))) from n"""
    connection, done = apsw.Connection(str(tmp_path / "slow.db")), threading.Event()

    def run_slow() -> None:
        memory = StatementMemory(connection)
        with (
            suppress(apsw.InterruptError),
            StatementLimit(connection, 60, stopped=done.is_set, memory=memory),
            memory,
        ):
            connection.execute(slow).fetchall()

    thread = threading.Thread(target=run_slow)
    thread.start()
    turns = 0
    try:
        with connected() as (other, memory):
            while turns < 5:
                with memory:
                    other.execute("select json_group_array(1)").fetchall()
                turns += 1
            assert thread.is_alive()
    finally:
        done.set()
        thread.join()


def test_statement_in_an_endless_step_has_no_turn() -> None:
    with connected() as (_, endless), endless, connected() as (connection, memory):
        began = time.monotonic()
        with memory:
            assert connection.execute(SMALL).fetchall() == [(6_000_001,)]
        assert time.monotonic() - began < 60
        assert not memory.oversized


def test_interrupt_ends_the_wait_for_a_turn() -> None:
    with connected() as (_, holder), connected() as (waiting, memory), holder:
        thread = threading.Thread(target=lambda: memory.__enter__().__exit__())
        thread.start()
        memory.stopped = True
        thread.join(60)
        assert not thread.is_alive()
        waiting.execute("select 1").fetchall()


def test_statement_whose_limits_cannot_be_checked_is_interrupted() -> None:
    connection = apsw.Connection(":memory:")

    def fail() -> bool:
        raise OSError

    with pytest.raises(apsw.InterruptError), StatementLimit(connection, 60, stopped=fail):
        connection.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
        )


def test_dead_thread_of_the_checks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    watch = statement_limit._Watch()
    watch._thread = dead
    monkeypatch.setattr(statement_limit, "_WATCH", watch)
    connection = apsw.Connection(":memory:")
    with pytest.raises(apsw.InterruptError), StatementLimit(connection, 0.1):
        connection.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
        )
