"""Changes of membership as a node observes them.

A node that was removed must not join the cluster again, so it checks that before its nats-server starts.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from engine.bucket.errors import BucketError
from engine.cancellation import cancel
from engine.fleet.connection import NatsConnection
from engine.fleet.kv import StreamKeyValue
from engine.fleet.node import FleetNode, NodeAddress, cluster_address
from engine.fleet.registry import KEEPERS, MEMBERS, Member, Registry, member_key, removed
from engine.fleet.stream import JetStream

PROBE_SECONDS = 1.0
READ_SECONDS = 3.0


async def check_membership(folder: Path, node: FleetNode, namespace: str) -> None:
    """Raise `FleetError` if another node that runs knows that this one was removed."""
    others = [address for address in node.nodes if address != node.address]
    servers = tuple(f"tls://{other}" for other in await listening(others))
    if not servers:
        return
    with suppress(BucketError):  # Without a majority the service waits for the others, and checks again.
        connection = await NatsConnection.open(replace(cluster_address(folder, node), servers=servers))
        try:
            records = JetStream(connection, "svc-records", f"{namespace}.fleet")
            value = await StreamKeyValue(records, PROBE_SECONDS).get(member_key(node.node))
        finally:
            await connection.aclose()
        if value is None:
            raise removed(node.node)


async def follow_keepers(kv: StreamKeyValue, registry: Registry) -> AsyncGenerator[list[Member], None]:
    """Yield the nodes with a nats-server after each change, until the store closes."""
    async for _ in kv.watch(MEMBERS, 0):
        keepers = [member for member in await registry.members() if member.keeper]
        if len(keepers) >= KEEPERS:
            yield keepers


async def listening(addresses: Sequence[NodeAddress]) -> list[NodeAddress]:
    """Return the addresses at which a nats-server listens."""
    found = await asyncio.gather(*map(_listens, addresses))
    return [address for address, listens in zip(addresses, found, strict=True) if listens]


async def _listens(address: NodeAddress) -> bool:
    """Return whether a nats-server listens at an address."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class KnownMembers:
    """The members of the fleet, also while its store does not answer."""

    def __init__(self) -> None:
        self._last: list[Member] = []

    async def read(self, registry: Registry) -> list[Member]:
        """Return the members, or those of the last call. Raises `BucketError` if there was none."""
        reading = asyncio.ensure_future(registry.members())
        await asyncio.wait([reading], timeout=READ_SECONDS if self._last else None)
        if not reading.done():
            await cancel([reading])
        elif reading.exception() is None:
            self._last = reading.result()
        if not self._last:
            reading.result()
        return self._last
