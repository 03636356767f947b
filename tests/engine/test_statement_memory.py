"""The memory of statements that collect values: measured for each, and limited."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from engine.files.statement_limit import STEPS_PER_TURN
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

    def progress() -> bool:
        memory.give_way()
        return False

    connection.set_progress_handler(progress, STEPS_PER_TURN)
    try:
        yield connection, memory
    finally:
        connection.close()


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
