"""Three servers, the first one with its store on a small disk that becomes full: `… FOLDER`."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from engine.fleet import nats_server
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.fleet import stream_copies
from engine.fleet.nats_server import NatsServer
from engine.fleet.node import STORE, cluster_address
from tests.engine.fleet.cluster import READY_SECONDS, create_nodes

BLOCK = b"x" * 200_000


async def main(small: Path) -> None:
    """Write until the disk is full and beyond, make room, and wait until the server has all values."""
    small.mkdir()
    with tempfile.TemporaryDirectory(prefix="svc-full-disk-") as folder:
        nodes, _ = create_nodes(Path(folder), 3)
        address = cluster_address(*nodes[2])
        (nodes[0][0] / STORE.parent).symlink_to(small, target_is_directory=True)
        logged: list[str] = []
        servers = [NatsServer(*each, lambda level, line: logged.append(line)) for each in nodes]
        for server in servers:
            await server.start()
        try:
            for server in servers:
                await server.ready(READY_SECONDS)
            bucket = await JetStreamBucket.open(address, "full", Path(folder) / "uploads")
            await write(bucket, "before", 3)
            filler = small / "filler"
            fill(filler)
            await write(bucket, "full", 30)

            async def is_unhealthy() -> bool:
                return not await servers[0].healthy()

            async def is_restarted() -> bool:
                return any("since its disk was full" in line for line in logged)

            async def is_complete() -> bool:
                return all(len(each.current) == 3 for each in await stream_copies(bucket.connection))

            await wait(is_unhealthy)
            filler.unlink()
            await wait(is_restarted)
            await servers[0].ready(READY_SECONDS)
            await wait(is_complete)
            await write(bucket, "after", 3)
            values = await bucket.kv.list("")
            assert len(values) == 36, len(values)
            assert all(value.value == BLOCK for value in values)
            await bucket.aclose()
        finally:
            for server in servers:
                await server.kill()


async def wait(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds."""
    for _ in range(600):
        if await holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(holds.__name__)


async def write(bucket: JetStreamBucket, name: str, count: int) -> None:
    """Store values, which must all be acknowledged."""
    for number in range(count):
        assert isinstance(await bucket.kv.cas(f"{name}/{number}", BLOCK, None), int)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


if __name__ == "__main__":
    nats_server.STORE_CHECK_SECONDS = 0.5
    asyncio.run(main(Path(sys.argv[1])))
    print("whole")
