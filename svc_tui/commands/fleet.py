"""`svc fleet`: services on several machines."""

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from engine.errors import InvalidUsage, SvcError
from svc_tui.commands.options import AsJson, Commands, Yes, argument, flag, option
from svc_tui.terminal import prompt, stderr, stdout
from svc_tui.terminal.stderr import ProgressLine
from svc_tui.terminal.stdout import Answer, Cell
from svc_tui.terminal.units import duration, plural
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from engine.fleet.node import NodeAddress

_NODE = re.compile(r"(?:\[([0-9A-Fa-f:]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
fleet = Commands(help="Run a service on several machines.")
Data = Annotated[
    Path | None, option("DIR", "Data directory of the service (default: data in SVC_HOME).", "--data")
]


@fleet.command()
def start(
    data: Data = None,
    listen: Annotated[
        str, option("HOST[:PORT]", "Address of this machine for other nodes (port: 4222).")
    ] = "",
) -> None:
    """Make this service the first node of a fleet. Prints how two machines join it.

    Repeat it if the service could not copy its data.
    """
    from engine.fleet.node import NodeAddress, own_host

    try:  # The address is one for documentation, outside this machine. No packet is sent to it.
        address = parse_address("--listen", listen or own_host(NodeAddress("192.0.2.1", 9)))
    except OSError as error:
        hint = "Pass its address: --listen HOST"
        raise InvalidUsage("this machine has no route to others", hint) from error
    state = _call(data, "POST", "/v1/fleet", {"host": address.host, "port": address.port})
    stdout.line(f"this service is the node {state['node']} of the fleet {state['fleet']}")
    missing = state["needed"] - len(state["nodes"])
    if missing <= 0:
        stdout.line("it stops serving for the seconds that the copy of its data takes: see its log")
        return
    stdout.line(f"the fleet needs {plural(missing, 'more node')}. Run each line on another machine:")
    for _ in range(missing):
        created = _call(data, "POST", "/v1/fleet/tokens", {})["token"]
        stdout.line(f"  SVC_JOIN={created} svc serve --data {shlex.quote(str(_data_folder(data)))}")
    stderr.note(
        "each token admits one node within 24 hours. When the last one has joined, this service stops serving"
        " for the seconds that the copy of its data takes"
    )


@fleet.command()
def token(
    data: Data = None,
    hours: Annotated[int, option("N", "How long the token can be used.", min=1, max=720)] = 24,
    keeper: Annotated[
        bool, flag("The machine stores the fleet's data, to replace another keeper.", "--keeper")
    ] = False,
) -> None:
    """Print a token that lets one machine join. It is SVC_JOIN of svc serve."""
    body = {"hours": hours, "keeper": keeper}
    stdout.line(_call(data, "POST", "/v1/fleet/tokens", body)["token"])


@fleet.command()
def drain(data: Data = None) -> Answer:
    """Stop taking requests on this machine. Returns when the last one has ended."""
    drained = _call(data, "POST", "/v1/fleet/drain", {})
    line = f"{drained['node']} takes no requests; stop its service, or restart it to serve again"
    return Answer(drained, [line])


@fleet.command()
def upgrade(data: Data = None) -> Answer:
    """Prepare this machine for a new version. Drains it if the fleet can do without it."""
    drained = _call(data, "POST", "/v1/fleet/drain", {"upgrade": True})
    nodes = _call(data, "GET", "/v1/fleet")["nodes"]
    others = [f"{node['id']} ({node['version']})" for node in nodes if not node["this"]]
    lines = (
        f"{drained['node']} takes no requests. On this machine:",
        "  1. install the new version: pip install --upgrade 'svc-tui[fleet]'",
        "  2. restart the service, and wait until svc fleet status shows all nodes as present",
        f"Then run svc fleet upgrade on the others, one by one: {', '.join(others)}",
    )
    return Answer({**drained, "nodes": nodes}, lines)


@fleet.command()
def remove(
    node: Annotated[str, argument("NODE", "Id of a node that does not run.")], data: Data = None
) -> Answer:
    """Remove a stopped or lost machine from the fleet. Run this on another machine."""
    removed = _call(data, "DELETE", f"/v1/fleet/nodes/{quote(node, safe='')}")
    line = f"removed {removed['role']} {removed['id']} at {removed['address']}"
    return Answer(removed, [line], after="its data directory still has the keys of the fleet: delete it")


@fleet.command()
def reseed(data: Data = None) -> Answer:
    """Discard this machine's copies of the data. The others replace them. Stop its service first."""
    from engine.bucket.layout import locked
    from engine.files.database_files import remove_database
    from engine.fleet.fleet import discard_copies
    from engine.fleet.node import NODE_FOLDER, FleetNode
    from svc_tui.serve.storage import databases

    folder = _data_folder(data)
    node = FleetNode.read(folder / NODE_FOLDER)
    with locked(folder, "svc fleet reseed"):
        asyncio.run(discard_copies(folder / NODE_FOLDER, node))
        tables = databases(folder)
        for path in tables:
            remove_database(path)
    line = f"discarded the copies of {node.node}; start its service to take them from the others"
    return Answer({"node": node.node, "tables": len(tables)}, [line])


@fleet.command()
def repair(
    project: Annotated[str, argument("PROJECT", "Project with the tables.")],
    node: Annotated[str, option("NODE", "Id of the node whose copy is right.", "--from")],
    data: Data = None,
    yes: Yes = False,
) -> Answer:
    """Replace a project's tables on all machines by those of one. svc usually does it itself."""
    path, body = f"/v1/projects/{quote(project, safe='')}/fleet/repair", {"node": node}
    differing = _call(data, "POST", path, body)["differing"]
    if differing:
        what = f"replace the tables of {project} on {', '.join(differing)} by those of {node}"
        prompt.confirm(f"{what}? Changes that only they have are lost.", yes=yes)
        differing = _call(data, "POST", path, {**body, "commit": True})["differing"]
    line = f"the copies of {project} on all nodes that run are equal to that of {node}"
    if differing:
        line = f"{', '.join(differing)} take the tables of {project} from {node}"
    note = "their old copies are beside the tables as tables.db.aside-…" if differing else ""
    return Answer({"project": project, "node": node, "differing": differing}, [line], after=note)


@fleet.command()
def rescue(
    to: Annotated[Path, argument("TO", "New data directory: missing or empty.")],
    data: Data = None,
    keepers: Annotated[str, option("ID,ID,…", "Ids of all keepers, if this machine lacks them.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a service for one machine of what this one has. Use it if most keepers are lost for ever."""
    from svc_tui.commands.backup import absolute, members, summary
    from svc_tui.serve.storage import rescue

    target, ids = absolute(to), [each.strip() for each in keepers.split(",") if keepers]
    with ProgressLine() as line:
        done = asyncio.run(rescue(_data_folder(data), target, ids, lambda each: line.show(summary(each))))
    if as_json:
        times = {"contact": done.contact, "changed": done.changed, "tables": done.tables}
        stdout.data({"node": done.node, **members(done.report), **times, "newer": done.newer})
    else:
        stdout.line(f"rescued {summary(done.report)} to {target}")
        stdout.line(f"{done.node} had contact with the fleet until {done.contact}. Last changes that it has:")
        stdout.line(f"  deployments, accounts and secrets: {done.changed}")
        for name, stored in sorted(done.tables.items()):
            stdout.line(f"  tables of {name}: {stored}{' (its copy)' if name in done.newer else ''}")
    stderr.note("later changes are lost: only the other machines had them. Logs and usage are not copied")
    if not (target / "secrets.key").exists():
        stderr.warn("there was no secrets.key", "Set each secret again with `svc secret set`.")
    stderr.note(f"start it: svc serve --data {shlex.quote(str(target))}")


@fleet.command()
def status(data: Data = None) -> Answer:
    """Show the nodes of the fleet."""
    from svc_tui.client.fleet import ObservedFleet

    document = _call(data, "GET", "/v1/fleet")
    fleet = ObservedFleet.from_json(document)
    rows: list[list[Cell]] = []
    warnings = []
    for node in fleet.nodes:
        this, leads = " (this)" * node.this, ", leads" * node.leads
        fixed = [(text, "") for text in (node.id + this, node.address, node.role, node.version)]
        state = (node.state(), "" if node.good else "yellow")
        rows.append([*fixed, state, (node.tables + leads, "yellow" if node.lag_ms else "")])
        if node.skewed:
            apart = f"{duration(int(abs(node.skewed) * 1e9))} {'ahead of' if node.skewed > 0 else 'behind'}"
            hint = "Synchronize the clocks of all machines, for example with chrony."
            warnings.append((f"the clock of {node.id} is {apart} this machine's", hint))
    for node in fleet.nodes if fleet.quorum else ():
        for copy in node.copies or ():
            since = f"{copy['since'][:19]}Z: {copy['problem']}"
            hint = f"svc repairs them. If it does not: svc fleet repair {copy['project']} --from NODE"
            message = f"the tables of {copy['project']} on {node.id} are not up to date since {since}"
            warnings.append((message, hint))
    if fleet.serving and not fleet.healthy:
        hint = "Check the other nodes and the network."
        warnings.append(("this node is not in contact with a majority", hint))
    table = stdout.table(("node", "address", "role", "version", "state", "tables"), rows)
    head = [(f"fleet {fleet.fleet}: {fleet.summary()}", "")]
    return Answer(document, [head, *table], warnings=warnings)


def _data_folder(data: Path | None) -> Path:
    return Home.from_environment(os.environ).data(data)


def _call(data: Path | None, method: str, path: str, body: Any = None) -> Any:
    """Return the answer of the running service of a data directory to its owner. Raises `SvcError`."""
    from engine.fleet.node import find_node
    from svc_tui.client.discovery import find_running

    folder = _data_folder(data)
    client = find_running(folder, "/v1/health")  # Also answered without a majority.
    if client is not None:
        with client:
            return client.call(method, path, body)
    node = find_node(folder)
    if node is not None and node.state == "joining":
        hint = f"Look at the fleet on the first machine, {node.nodes[0].host}: svc fleet status"
        raise SvcError(f"the node {node.node} waits until the fleet has enough nodes", hint)
    raise SvcError(
        f"no service with the data directory {folder} answers",
        "Start it with `svc serve`, or wait until it serves: its log says what it waits for. For the service"
        " of another data directory, pass --data DIR",
    )


def parse_address(name: str, text: str) -> "NodeAddress":
    """Return the address of a node that the option `name` has. Raises `InvalidUsage`."""
    from engine.fleet.node import DEFAULT_PORT, MAX_PORT, NodeAddress

    match = _NODE.fullmatch(text)
    port = int(match[3] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= MAX_PORT:
        hint = f"Use HOST or HOST:PORT, with a port up to {MAX_PORT}."
        raise InvalidUsage(f"{name} {text} is not a valid address", hint)
    return NodeAddress(match[1] or match[2], port)
