"""Streams of threads that run SQL: a client that leaves ends the statement."""

import asyncio
import io
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from doors.tables.api.file_routes import start_stream
from doors.tables.files.importer import load
from doors.tables.sqlite.connections import close_owner, open_owner
from doors.tables.sqlite.errors import TablesError
from engine.files.statement_limit import StatementLimit

FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


def test_disconnect_interrupts_the_statement_in_progress() -> None:
    ended: list[type[BaseException]] = []
    closed: list[str] = []
    begun = threading.Event()

    def produce(stopped: Callable[[], bool]) -> Iterator[bytes]:
        connection = apsw.Connection(":memory:")
        try:
            with StatementLimit(connection, math.inf, stopped=stopped):
                yield b"begun"
                begun.set()
                connection.execute(FOREVER).fetchall()
        except apsw.InterruptError as error:
            ended.append(type(error))
            raise
        finally:
            connection.close()
            closed.append("pieces")

    async def leave() -> None:
        transfer = ExitStack()
        transfer.callback(closed.append, "transfer")
        stream = await start_stream(produce, transfer)
        assert await anext(stream) == b"begun"
        rest = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(begun.wait, 60)
        rest.cancel()
        await asyncio.wait([rest])
        await stream.aclose()

    asyncio.run(asyncio.wait_for(leave(), 60))
    assert ended == [apsw.InterruptError]
    assert closed == ["pieces", "transfer"]


def test_statement_of_a_dump_ends_with_the_client(tmp_path: Path) -> None:
    dump = f"create table t (a); insert into t {FOREVER};".encode()
    connection, began = open_owner(tmp_path / "x.db"), time.monotonic()
    try:
        with pytest.raises(TablesError):
            list(load(connection, io.BytesIO(dump), "sql", stopped=lambda: time.monotonic() > began + 0.2))
    finally:
        close_owner(connection)
    assert time.monotonic() - began < 60
