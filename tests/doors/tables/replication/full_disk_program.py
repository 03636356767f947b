"""A program with a node whose disk becomes full, and one that starts on the full disk.

`python -m tests.doors.tables.replication.full_disk_program FOLDER`: the folder is on a small file system.
Prints `whole` if both nodes name the reason, put nothing aside, and have all rows once there is space.
"""

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, answer

INSERT = "INSERT INTO t (v) VALUES (randomblob(100000))"
TOTAL = "SELECT count(*) AS n, sum(length(v)) AS bytes FROM t"


async def refusal(node: Node) -> str:
    """Return why a node cannot answer a query."""
    status, document = await node.send("query", TOTAL)
    assert (status, document["code"]) == (503, "unavailable"), document
    return str(document["detail"])


async def main(small: Path, large: Path) -> None:
    small.mkdir()
    ballast = small / "ballast"
    logs = MemoryLogs()
    first, second = Node(logs, large, "a"), Node(logs, small, "b")
    await first.change("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", INSERT)
    assert (await second.rows(TOTAL))[0] == (1, 100_000)
    with ballast.open("wb") as file:
        file.write(b"x" * (os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - 1_000_000))
    for _ in range(30):
        await first.change(INSERT)
    assert "the disk of this node is full" in await refusal(second)
    with suppress(OSError), (small / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    third = Node(logs, small, "c")
    assert "the disk of this node is full" in await refusal(third)
    ballast.unlink()
    for node in (second, third):
        assert await answer(node, TOTAL) == [{"n": 31, "bytes": 3_100_000}]
    for node in (first, second, third):
        await node.close()
    assert not list(small.rglob("*.aside-*"))
    print("whole")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(sys.argv[1]), Path(folder)))
