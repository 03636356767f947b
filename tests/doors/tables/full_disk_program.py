"""A program that fills the disk of tables, frees space, and fails if a row is lost or partial.

`python -m tests.doors.tables.full_disk_program FOLDER [limited]`: the disk is a small file system, or a limit
on the size of files. Prints `whole` and how many rows were acknowledged.
"""

import asyncio
import resource
import sys
from pathlib import Path

from doors.tables.door import TablesDoor
from tests.doors.tables.tables_door import Answer, Tables

AT_ONCE = 16
TEXT = "x" * 10_000
MOST = 2_000


async def fill(tables: Tables) -> tuple[int, set[str]]:
    """Insert from several guests until all are refused; return the count of rows and the error codes."""
    codes = set()
    stored = 0

    async def guest() -> None:
        nonlocal stored
        for _ in range(MOST):
            answer: Answer = await tables.exec_async("insert into t (a, b) values ($1, $1)", TEXT)
            if answer.status != 200:
                codes.add(answer.code)
                return
            stored += 1
        raise AssertionError("the disk takes everything")

    await asyncio.gather(*(guest() for _ in range(AT_ONCE)))
    return stored, codes


def main(folder: Path, *, limited: bool) -> None:
    folder.mkdir()
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 400_000)
    loop = asyncio.new_event_loop()
    tables = Tables(folder, loop, TablesDoor())
    tables.schema("create table t (id integer primary key, a text, b text)")
    if limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    stored, codes = loop.run_until_complete(fill(tables))
    assert codes <= {"storage-full", "storage"}, codes
    check = "select count(*) as n, sum(length(a) = 10000 and a = b) as whole from t"
    assert tables.query(check).rows == [{"n": stored, "whole": stored}], (tables.query(check).text, stored)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ballast.unlink()
    assert tables.exec("insert into t (a, b) values ('y', 'y')").status == 200
    tables.close()
    second = Tables(folder, loop, TablesDoor())
    assert second.query("select count(*) as n from t").rows == [{"n": stored + 1}]
    second.close()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    print("whole", stored, *sorted(codes), *(record.body for record in tables.records))


if __name__ == "__main__":
    main(Path(sys.argv[1]), limited=sys.argv[2:] == ["limited"])
