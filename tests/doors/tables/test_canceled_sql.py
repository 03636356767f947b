"""SQL of owners whose caller is canceled."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from doors.tables.api.query import run_with_connection

FOREVER = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"


def test_error_of_an_interrupted_statement_is_not_logged_by_asyncio(tmp_path: Path) -> None:
    logged: list[dict[str, Any]] = []
    begun, errors = threading.Event(), list[apsw.Error]()

    @contextmanager
    def opened() -> Iterator[apsw.Connection]:
        yield (connection := apsw.Connection(":memory:"))
        connection.close()

    def work(connection: apsw.Connection) -> None:
        begun.set()
        try:
            connection.execute(FOREVER).fetchall()
        except apsw.Error as error:
            errors.append(error)
            raise

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        caller = asyncio.create_task(run_with_connection(tmp_path, opened(), work))
        assert await asyncio.to_thread(begun.wait, 60)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert [type(error) for error in errors] == [apsw.InterruptError]
        errors.clear()
        del caller
        gc.collect()

    asyncio.run(main())
    assert logged == []
