"""`svc fleet`: the nats-servers that store a service."""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import InvalidUsage
from svc_tui.terminal import stderr, stdout

if TYPE_CHECKING:
    from engine.fleet.nats_server import NatsServer
    from engine.fleet.node import NodeAddress

_NODE = re.compile(r"(?:\[([0-9A-Fa-f:]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
fleet = typer.Typer(help="Create and run the nats-servers that store a service.", no_args_is_help=True)


@fleet.command()
def create(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the keys.")],
    node: Annotated[
        list[str],
        typer.Option("--node", metavar="HOST[:PORT]", help="Address of a node; repeat it for 3 or 5 nodes."),
    ],
) -> None:
    """Create the keys of a fleet, with a folder for each node."""
    from engine.fleet.node import create_fleet

    addresses = [_address(text) for text in node]
    folder = folder.expanduser().absolute()
    folders = create_fleet(folder, addresses)
    stdout.line(f"created {folder}")
    for address, path in zip(addresses, folders, strict=True):
        stdout.line(f"  {path.name}  {address}  run there: svc fleet run {path.name}")
    stdout.line(f"then: svc serve --bucket {folders[0].name}")
    stderr.note("authority/ can add nodes: store it offline")


@fleet.command()
def run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of this machine's node.")],
) -> None:
    """Run the nats-server of a node, and restart it when it ends."""
    asyncio.run(_run(folder.expanduser().absolute()))


async def _run(folder: Path) -> None:
    from engine.bucket.layout import lock
    from engine.fleet.nats_server import NatsServer
    from engine.fleet.node import check_addresses, load_node

    settings, nodes = load_node(folder)
    descriptor = lock(folder, "svc fleet run")
    try:
        check_addresses(settings)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        server = NatsServer(settings, stderr.log)
        await server.start()
        try:
            stdout.line(f"node {settings.name}  {settings.listen}  of {len(nodes)} nodes")
            await _report_health(server, stop)
        finally:
            await server.stop()
    finally:
        os.close(descriptor)


async def _report_health(server: "NatsServer", stop: asyncio.Event) -> None:
    """Write a line when the node becomes healthy or unhealthy, until `stop` is set."""
    healthy: bool | None = None
    while not stop.is_set():
        now = await server.healthy()
        if now and not healthy:
            stdout.line("ready")
        elif not now and healthy:
            stderr.log("warning", "this node lost contact with most of the nodes, or is catching up")
        healthy = now
        try:
            await asyncio.wait_for(stop.wait(), 1 if healthy else 0.1)
        except TimeoutError:
            continue


def _address(text: str) -> "NodeAddress":
    from engine.fleet.node import DEFAULT_PORT, MAX_PORT, NodeAddress

    match = _NODE.fullmatch(text)
    port = int(match[3] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= MAX_PORT:
        raise InvalidUsage(
            f"--node {text} is not a valid address", f"Use HOST or HOST:PORT, with a port up to {MAX_PORT}."
        )
    return NodeAddress(match[1] or match[2], port)
