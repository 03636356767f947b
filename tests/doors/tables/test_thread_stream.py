"""Streams of threads that run SQL: a client that leaves ends the statement."""

import asyncio
import time

import apsw

from doors.tables.api.thread_stream import ChunkWriter, Stream

FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


def test_disconnect_interrupts_the_statement_in_progress() -> None:
    ended: list[type[BaseException]] = []

    def produce(sink: ChunkWriter) -> None:
        connection = apsw.Connection(":memory:")
        try:
            with sink.interrupting(connection.interrupt):
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
