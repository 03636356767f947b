import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from doors.tables.door import TablesDoor
from tests.doors.tables.tables_door import Tables


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def open_tables(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., Tables]]:
    """Open the Door for a project of the given name; all are closed at the end."""
    opened = []
    door = TablesDoor()

    def open_one(name: str = "shop") -> Tables:
        tables = Tables(tmp_path / name, loop, door)
        tables.folder.mkdir(exist_ok=True)
        opened.append(tables)
        return tables

    yield open_one
    for tables in opened:
        tables.close()


@pytest.fixture
def tables(open_tables: Callable[..., Tables]) -> Tables:
    """The Door of one project that has a table of users."""
    tables = open_tables()
    tables.schema(
        "create table users (id integer primary key, name text not null unique, age integer) strict"
    )
    return tables
