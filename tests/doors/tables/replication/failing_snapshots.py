"""Snapshots of tables that are stored and read while the disk fails at each of its operations in turn.

`… FOLDER FIRST DISTANCE`: one operation on a file of a node fails with EIO, the `FIRST` one of a snapshot,
then one `DISTANCE` further. Fails if a snapshot is not whole, if its error does not name the disk, or if
nodes do not continue. Prints how many snapshots were not stored, and how many nodes failed before they began.
"""

import asyncio
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from doors.tables.replication import follower
from doors.tables.replication.errors import storage_failure
from doors.tables.sqlite.errors import Connection, Error
from tests.doors.tables.replication.memory_log import MemoryLogs
from tests.doors.tables.replication.nodes import Node, answer, asides, content
from tests.support.failing_disk import Disk, FailingVfs

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"
INSERT = "INSERT INTO t (v) VALUES (hex(randomblob(9000)))"
UPDATE = "UPDATE t SET v = hex(randomblob(9000))"


async def store(root: Path, logs: MemoryLogs, node: Node, disk: Disk, first: int, distance: int) -> int:
    """Store snapshots until no operation fails; return how many failed."""
    failures, stored = 0, root / "stored.db"
    for number in count(first, distance):
        await node.change(UPDATE)
        before, failed = logs.snapshots.get("shop"), False
        disk.failed, disk.remaining = "", number
        try:
            await node.replicas.of(node.data).copy.take_snapshot()
        except (Error, OSError) as error:
            failed = True
            assert "disk" in storage_failure(error) or "Input/output" in storage_failure(error), error
        disk.remaining = 0
        after = logs.snapshots.get("shop")
        assert failed == (after == before), (disk.failed, before, after)
        if after is not None:
            stored.write_bytes(logs.files[after.stored[0].digest])
            with closing(Connection(str(stored))) as copy:
                values = copy.execute("SELECT v FROM t").fetchall()
            assert (values == await node.rows("SELECT v FROM t")) != failed, disk.failed
        failures += failed
        if not disk.failed:
            break
    assert not node.path.with_name(node.path.name + ".snapshot").exists()
    return failures


async def begin(root: Path, logs: MemoryLogs, first: Node, disk: Disk, start: int, distance: int) -> int:
    """Start nodes that begin with the snapshot until no operation fails; return how many failed."""
    failures = 0
    for number in count(start, distance):
        disk.failed, disk.remaining = "", number
        node = Node(logs, root, f"late{number}")
        await answer(node, "SELECT count(*) AS n FROM t")
        disk.remaining = 0
        assert await content(node) == await content(first), disk.failed
        assert not asides(node), disk.failed
        await node.close()
        failures += bool(disk.failed)
        if not disk.failed:
            break
    return failures


async def main(root: Path, first: int, distance: int) -> None:
    follower.RETRY_SECONDS = 0.01
    logs, disk = MemoryLogs(), Disk(str(root))
    vfs = FailingVfs(disk)
    disk.install()
    node = Node(logs, root, "a")
    await node.change(TABLE, INSERT)
    stored = await store(root, logs, node, disk, first, distance)
    began = await begin(root, logs, node, disk, first, distance)
    await node.close()
    del vfs
    print(f"whole, after {stored} and {began} failures")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
