"""`svc fleet`: services on several machines, and the nats-servers that store them."""

import asyncio
import os
import re
import signal
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import InvalidUsage, SvcError
from svc_tui.commands.options import AsJson
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.table import format_table
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.fleet.nats_server import NatsServer
    from engine.fleet.node import NodeAddress
    from svc_tui.client import Client

MAX_SKEW_SECONDS = 5.0
_NODE = re.compile(r"(?:\[([0-9A-Fa-f:]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
fleet = typer.Typer(help="Run a service on several machines.", no_args_is_help=True)
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory of the service (default: data in SVC_HOME)."),
]
_PROBE = ("192.0.2.1", 9)
"""An address for documentation, outside this machine. No packet is sent to it."""


@fleet.command()
def start(
    data: Data = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST[:PORT]", help="Address of this machine for other nodes (port: 4222)."
        ),
    ] = "",
) -> None:
    """Make the service on this machine the first node of a fleet; print how two machines join it."""
    address = parse_address("--listen", listen) if listen else parse_address("--listen", _own_address())
    with _service(data) as client:
        state = client.call("POST", "/v1/fleet", {"host": address.host, "port": address.port})
        stdout.line(f"created the fleet {state['fleet']}; this service is its node {state['node']}")
        missing = state["needed"] - len(state["nodes"])
        stdout.line(f"{missing} more nodes are needed. Run on each of {missing} other machines:")
        for _ in range(missing):
            stdout.line(f"  svc serve --join {client.call('POST', '/v1/fleet/tokens', {})['token']}")
    stderr.note("each token admits one node within 24 hours; until then this service runs as before")


@fleet.command()
def token(
    data: Data = None,
    hours: Annotated[
        int, typer.Option("--hours", metavar="N", min=1, max=720, help="How long the token can be used.")
    ] = 24,
) -> None:
    """Print a token that lets one machine join: svc serve --join TOKEN."""
    with _service(data) as client:
        stdout.line(client.call("POST", "/v1/fleet/tokens", {"hours": hours})["token"])


@fleet.command()
def status(data: Data = None, as_json: AsJson = False) -> None:
    """Show the nodes of the fleet."""
    with _service(data) as client:
        state = client.call("GET", "/v1/fleet")
    if as_json:
        stdout.data(state)
        return
    count, present = len(state["nodes"]), sum(node["present"] for node in state["nodes"])
    if state["serving"]:
        summary = f"serves, {present} of {count} nodes present"
    else:
        summary = f"{count} of {state['needed']} nodes; this service serves alone until the others join"
    stdout.line(f"fleet {state['fleet']}: {summary}")
    rows = [_row(node) for node in state["nodes"]]
    for line in format_table(
        ("node", "address", "role", "version", "state"), rows, stdout.width(), frozenset()
    ):
        stdout.styled(line)
    if state["serving"] and not state["healthy"]:
        stderr.warn("this node is not in contact with a majority", "Check the other nodes and the network.")


def _row(node: dict[str, Any]) -> list[tuple[str, str]]:
    skew = node["skew_seconds"] or 0
    state = "present" if node["present"] else "away"
    if abs(skew) >= MAX_SKEW_SECONDS:
        state += f", clock {skew:+.0f} s"
    name = node["id"] + (" (this)" if node["this"] else "")
    good = node["present"] and abs(skew) < MAX_SKEW_SECONDS
    return [
        (name, ""),
        (node["address"], ""),
        (node["role"], ""),
        (node["version"], ""),
        (state, "" if good else "yellow"),
    ]


@contextmanager
def _service(data: Path | None) -> "Iterator[Client]":
    """Yield an owner's client of the running service of a data directory. Raises `SvcError`."""
    from svc_tui.client.discovery import find_running

    folder = (data or Home.from_environment(os.environ).root / "data").expanduser().absolute()
    client = find_running(folder, "/v1/whoami")
    if client is None:
        raise SvcError(
            f"no service runs on {folder}",
            "Start it with `svc serve`, or pass its data directory: --data DIR",
        )
    with client:
        yield client


def _own_address() -> str:
    """Return this machine's address towards others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
        except OSError as error:
            raise InvalidUsage(
                "this machine has no route to others", "Pass its address: --listen HOST"
            ) from error
        return str(probe.getsockname()[0])


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

    addresses = [parse_address("--node", text) for text in node]
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


def parse_address(option: str, text: str) -> "NodeAddress":
    """Return the address of a node. Raises `InvalidUsage`, which names the option."""
    from engine.fleet.node import DEFAULT_PORT, MAX_PORT, NodeAddress

    match = _NODE.fullmatch(text)
    port = int(match[3] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= MAX_PORT:
        raise InvalidUsage(
            f"{option} {text} is not a valid address", f"Use HOST or HOST:PORT, with a port up to {MAX_PORT}."
        )
    return NodeAddress(match[1] or match[2], port)
