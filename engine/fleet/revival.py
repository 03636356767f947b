"""The storage of a fleet that has lost its majority, served again from the store of one keeper.

nats-server knows by their names the servers that store a stream, and needs a majority of them. So one server
on loopback with the name of each keeper serves a copy of the store.
"""

import asyncio
import random
import secrets
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from engine.bucket.protocols import disk_error
from engine.fleet.bucket import STREAMS
from engine.fleet.errors import FleetError
from engine.fleet.nats_server import NatsServer
from engine.fleet.node import (
    MAX_PORT,
    NODE_FOLDER,
    STORE,
    FleetNode,
    NodeAddress,
    check_address,
    create_keeper,
)
from engine.fleet.tables_log import SNAPSHOTS
from engine.fleet.tables_log import STREAM as TABLES

HOST = "127.0.0.1"
READY_SECONDS = 120.0
_STREAMS = Path("jetstream", "SVC", "streams")


@asynccontextmanager
async def revived(data: Path, node: FleetNode, work: Path) -> AsyncGenerator[Path, None]:
    """Serve copies of the store of a keeper that does not run; yield a data directory of that fleet.

    `data` is that of the keeper, `node` names all keepers, and `work` is an empty folder. Raises `SvcError`.
    """
    from engine.fleet.authority import Authority

    store = data / NODE_FOLDER / STORE
    for name in (*STREAMS, TABLES, SNAPSHOTS):
        if not (store / _STREAMS / name).is_dir():
            raise FleetError(
                f"{data} has no copy of the stream {name}", "Use the data directory of another keeper."
            )
    authority, client, system = Authority.create(node.fleet), secrets.token_hex(), secrets.token_hex()
    addresses = _free_addresses(len(node.keepers))
    servers: list[NatsServer] = []
    async with AsyncExitStack() as stack:
        for keeper, address in zip(node.keepers, addresses, strict=True):
            folder = work / keeper / NODE_FOLDER
            own = replace(node, node=keeper, address=address, nodes=addresses)
            try:
                folder.parent.mkdir()
                create_keeper(folder, own, authority, client, system)
                await asyncio.to_thread(_copy, store, folder / STORE)
            except OSError as error:
                raise disk_error(work, error) from error
            server = NatsServer(folder, own, lambda level, line: None)
            await server.start()
            stack.push_async_callback(server.kill)
            servers.append(server)
        for server in servers:
            await server.ready(READY_SECONDS)
        yield folder.parent


def _free_addresses(count: int) -> tuple[NodeAddress, ...]:
    """Return addresses on loopback for nats-servers."""
    while True:
        first = random.randrange(10_000, MAX_PORT - count)
        addresses = tuple(NodeAddress(HOST, port) for port in range(first, first + count))
        with suppress(FleetError):
            for address in addresses:
                check_address(address)
            return addresses


def _copy(source: Path, target: Path) -> None:
    """Copy a folder. Raises OSError with its cause, which `shutil.copytree` would not."""
    for path in source.rglob("*"):
        copy = target / path.relative_to(source)
        (copy if path.is_dir() else copy.parent).mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copyfile(path, copy)
