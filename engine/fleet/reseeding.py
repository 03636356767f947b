"""A keeper discards its copies and takes them from the other keepers, after damage for example."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from engine.bucket.errors import BucketError, disk_error
from engine.fleet.connection import NatsConnection
from engine.fleet.copies import COPIES, stream_copies
from engine.fleet.errors import FleetError
from engine.fleet.node import FleetNode, cluster_address, server_settings

_REMEDY = "Start the services of the other keepers, and wait until `svc fleet status` shows them as present."


async def discard_copies(folder: Path, node: FleetNode) -> None:
    """Delete the store of a keeper that does not run. Raises `SvcError` unless the others have all data."""
    if node.state != "member":
        raise FleetError(f"the fleet of {folder} does not serve yet", "Start the service first.")
    others = tuple(f"tls://{address}" for address in node.nodes if address != node.address)
    try:
        connection = await NatsConnection.open(replace(cluster_address(folder, node), servers=others))
        try:
            copies = await stream_copies(connection)
        finally:
            await connection.aclose()
    except BucketError as error:
        raise FleetError(f"the other keepers do not answer: {error.message}", _REMEDY) from error
    for each in copies:
        if len(each.current - {node.node}) < COPIES - 1:
            raise FleetError(f"{each.name} has no two current copies on other keepers", _REMEDY)
    if not node.keeper:
        return
    store = server_settings(folder, node).folder / "store"
    try:
        await asyncio.to_thread(shutil.rmtree, store, ignore_errors=not store.exists())
    except OSError as error:
        raise disk_error(store, error) from error
