"""Streams of threads that run SQL: a client that leaves ends the statement."""

import asyncio
import io
import math
import time
from pathlib import Path

import apsw
import pytest

from doors.tables.api.file_routes import Stream
from doors.tables.files.importer import load
from doors.tables.sqlite.connections import close_owner, open_owner
from doors.tables.sqlite.errors import TablesError
from engine.files.statement_limit import StatementLimit

FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


def test_disconnect_interrupts_the_statement_in_progress() -> None:
    ended: list[type[BaseException]] = []

    def produce(sink: Stream) -> None:
        connection = apsw.Connection(":memory:")
        try:
            with StatementLimit(connection, math.inf, stopped=lambda: sink.disconnected):
                sink.write(b"begun")
                connection.execute(FOREVER).fetchall()
        except apsw.InterruptError as error:
            ended.append(type(error))
            raise
        finally:
            connection.close()

    async def leave() -> None:
        stream = Stream(produce, lambda: None)
        await stream.start()
        chunks = stream.chunks()
        assert await anext(chunks) == b"begun"
        await chunks.aclose()  # type: ignore[attr-defined]

    began = time.monotonic()
    asyncio.run(asyncio.wait_for(leave(), 30))
    assert ended == [apsw.InterruptError]
    assert time.monotonic() - began < 30


def test_statement_of_a_dump_ends_with_the_client(tmp_path: Path) -> None:
    dump = f"create table t (a); insert into t {FOREVER};".encode()
    connection, began = open_owner(tmp_path / "x.db"), time.monotonic()
    try:
        with pytest.raises(TablesError):
            list(load(connection, io.BytesIO(dump), "sql", stopped=lambda: time.monotonic() > began + 0.2))
    finally:
        close_owner(connection)
    assert time.monotonic() - began < 60
