"""Kills the first node of a fleet at each question to the cluster while its storage is copied.

Arguments: the data directory and the namespace. Between two kills the service changes its folder, as one that
serves from it. Prints the number of kills.
"""

import asyncio
import os
import signal
import sys
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from doors.tables.sqlite.connections import open_owner
from engine.bucket.folder import FolderBucket
from engine.fleet import fleet
from engine.fleet.connection import NatsConnection
from engine.fleet.fleet import Fleet
from engine.fleet.node import find_node
from svc_tui.serve.storage import check_replicable, copy_storage
from tests.support.blobs import put
from tests.support.killing import forked

VERSION = "1.0"
TABLES = Path("projects/shop/tables/tables.db")


def first_node(data: Path) -> Fleet:
    """Return the node of a data directory."""
    return Fleet(data, VERSION, lambda level, line: None, lambda _: _no_handler)


async def _no_handler(_: Any) -> None: ...


async def move(data: Path) -> None:
    """Do what a service does that becomes a fleet, then what its next start does."""
    node = first_node(data)
    if node.node is not None and node.node.state == "founding":
        bucket = FolderBucket(data)
        try:
            await node.start(bucket, partial(check_replicable, data))
            await node.move(partial(copy_storage, data, bucket))
        finally:
            await node.stop()
            await bucket.aclose()
    opened = await node.open(asyncio.Event())
    assert opened is not None
    await asyncio.sleep(0)  # Otherwise the heartbeats are canceled before they begin.
    await node.stop()
    await opened.aclose()


async def change(data: Path, number: int) -> None:
    """Change a value and a row, and add a blob, as a service that uses its folder."""
    bucket = FolderBucket(data)
    value = await bucket.kv.get("live/shop")
    answer = await bucket.kv.cas("live/shop", b"%d" % number, value.revision if value else None)
    assert isinstance(answer, int)
    if number < 3:
        await put(bucket.blobs, b"blob %d" % number * 1000)
    await bucket.aclose()
    with closing(open_owner(data / TABLES)) as connection:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def kill_at(number: int) -> None:
    """Kill this process before its n-th question."""
    remaining, request = number, NatsConnection.request

    async def counted(self: NatsConnection, *arguments: Any) -> dict[str, Any]:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            os.kill(os.getpid(), signal.SIGKILL)
        return await request(self, *arguments)

    NatsConnection.request = counted  # type: ignore[method-assign, assignment]


def is_founding(data: Path) -> bool:
    """Return whether the next start serves the folder."""
    node = find_node(data)
    assert node is not None
    return node.state == "founding"


def main(data: Path) -> None:
    """Kill the move at each question, then the start after it."""
    kills = 0
    for founding in (True, False):
        for number in count(1):
            if is_founding(data) is not founding:
                break
            if founding and forked(lambda number=number: asyncio.run(change(data, number))) != 0:  # type: ignore[misc]
                raise SystemExit(f"the folder cannot be used after the kill {number - 1}")

            def attempt(number: int = number) -> None:
                kill_at(number)
                asyncio.run(move(data))

            ended = forked(attempt)
            assert ended in (0, -signal.SIGKILL), f"kill {number}: ended with {ended}"
            if ended == 0:
                break
            kills += 1
    print(f"kills={kills}")


if __name__ == "__main__":
    fleet.NAMESPACE = sys.argv[2]
    main(Path(sys.argv[1]))
