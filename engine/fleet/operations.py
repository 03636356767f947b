"""Changes of a fleet that serves: nodes that stop, are upgraded, leave, or discard their copies."""

import asyncio
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.bucket.protocols import BucketError, disk_error
from engine.control.schemas import StrictModel
from engine.fleet.connection import ClusterAddress, NatsConnection, Patience, error_code
from engine.fleet.errors import FleetError
from engine.fleet.fleet import Fleet
from engine.fleet.members import FleetOut
from engine.fleet.node import STORE, SYSTEM, FleetNode, cluster_address
from engine.fleet.registry import Member

WAIT_SECONDS = 4.0
"""How long an operation waits for a heartbeat of another node."""
COPIES = 3
CURRENT_SECONDS = 120.0
"""How long a new copy may take."""
POLL_SECONDS = 0.2
_NOT_A_MEMBER = 10044
_IN_PROGRESS = 10202
"""Error code while another server joins or is removed."""
_STATUS = "Look at the nodes with `svc fleet status`."
_START_OTHERS = (
    "Start the services of the other keepers, and wait until `svc fleet status` shows them as present."
)


class DrainOut(StrictModel):
    """A node that takes no requests, and how many streams other nodes lead instead of it."""

    node: str
    streams: int


async def drain(fleet: Fleet) -> DrainOut:
    """Stop taking requests, wait for the last one to end, and let other nodes lead. Raises `SvcError`."""
    node, bucket = fleet.require_node(), fleet.cluster
    await _present(fleet)
    fleet.draining.set()
    await fleet.drained.wait()
    streams = await hand_over(bucket.connection, node.node) if node.keeper else 0
    return DrainOut(node=node.node, streams=streams)


async def prepare_upgrade(fleet: Fleet, status: FleetOut) -> DrainOut:
    """Drain this node for an upgrade, after checks that the others can do without it. Raises `SvcError`."""
    node = fleet.require_node()
    present = await _present(fleet)
    members = await fleet.registry().members()
    if away := [member.id for member in members if member.id not in present]:
        raise FleetError(f"{away[0]} is away: upgrade one node at a time, while all others run", _STATUS)
    if busy := [each.id for each in status.nodes if each.draining and not each.this]:
        raise FleetError(f"{busy[0]} is drained", "Start its service again first.")
    late = behind(await stream_copies(fleet.cluster.connection), [each.id for each in members])
    if late or not status.healthy:
        raise FleetError(f"{(late or [node.node])[0]} lacks the last writes", "Wait until it has them.")
    for id_, copy in [(each.id, copy) for each in status.nodes for copy in each.copies]:
        raise FleetError(
            f"the tables of {copy.project} on {id_} are not up to date: {copy.problem}",
            f"Wait until they are. If they stay so: svc fleet repair {copy.project} --from NODE",
        )
    return await drain(fleet)


async def remove(fleet: Fleet, id_: str) -> Member:
    """Remove a node that does not run, and return it. Raises `SvcError`.

    A keeper is removed once another one can store its data.
    """
    node, present = fleet.require_node(), await _present(fleet)
    members = {member.id: member for member in await fleet.registry().members()}
    if id_ not in members:
        raise FleetError(f"the fleet has no node {id_}", f"Its nodes are: {', '.join(sorted(members))}")
    member = members[id_]
    if id_ in present:
        raise FleetError(
            f"the node {id_} is running",
            "Run `svc fleet drain` on its machine and stop the service there. Then repeat this.",
        )
    if member.keeper:
        if not node.keeper:
            raise FleetError(
                f"the node {node.node} cannot remove a keeper", "Run this on the machine of a keeper."
            )
        await _remove_keeper(fleet, member, {each.id for each in members.values() if each.keeper} & present)
    await fleet.registry().remove(id_)
    return member


async def _remove_keeper(fleet: Fleet, member: Member, keepers: set[str]) -> None:
    if len(keepers) < COPIES:
        raise FleetError(
            f"without the keeper {member.id}, {len(keepers)} keepers run: another failure would stop all"
            " changes",
            "Add a keeper first: `svc fleet token --keeper`, and `SVC_JOIN=TOKEN svc serve` on its machine.",
        )
    connection = fleet.cluster.connection
    if late := behind(await stream_copies(connection), keepers):
        raise FleetError(f"the keeper {late[0]} lacks the last writes", "Wait until it has them.")
    await remove_server(cluster_address(fleet.folder, fleet.require_node(), SYSTEM), member.id)
    await wait_current(connection, member.id)


async def _present(fleet: Fleet) -> set[str]:
    """Return the nodes that run, as this one observes them.

    Raises `FleetError` before the fleet serves, and if no other node is present within `WAIT_SECONDS`: the
    first heartbeats arrive soon after the start.
    """
    assert fleet.cluster
    node = fleet.require_node().node
    if fleet.presence is not None:
        with suppress(TimeoutError):
            return await fleet.presence.present_with_another(WAIT_SECONDS)
    raise FleetError(
        f"{node} is the last node that runs: nothing can be changed without a majority of the keepers",
        "Start the services of other nodes first.",
    )


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
        raise FleetError(f"the other keepers do not answer: {error.message}", _START_OTHERS) from error
    for each in copies:
        if len(each.current - {node.node}) < COPIES - 1:
            raise FleetError(f"{each.name} has no two current copies on other keepers", _START_OTHERS)
    if not node.keeper:
        return
    store = folder / STORE
    try:
        await asyncio.to_thread(shutil.rmtree, store, ignore_errors=not store.exists())
    except OSError as error:
        raise disk_error(store, error) from error


@dataclass(frozen=True, slots=True)
class StreamCopies:
    """One stream: its leader, and the servers with a current copy, the leader among them."""

    name: str
    leader: str
    current: frozenset[str]
    servers: frozenset[str]


async def stream_copies(connection: NatsConnection) -> list[StreamCopies]:
    """Return the copies of all streams. Raises `BucketError`."""
    listed = await connection.api("STREAM.NAMES", {})
    copies = []
    for name in listed.get("streams") or ():
        answer = await connection.api(f"STREAM.INFO.{name}", {})
        cluster = answer["cluster"]
        leader, others = cluster.get("leader", ""), cluster.get("replicas") or ()
        present = {each["name"] for each in others if each.get("current") and not each.get("offline")}
        servers = frozenset({leader, *(each["name"] for each in others)} - {""})
        copies.append(StreamCopies(name, leader, frozenset({leader} - {""} | present), servers))
    return copies


def behind(copies: Sequence[StreamCopies], keepers: Collection[str]) -> list[str]:
    """Return the keepers that lack a current copy of a stream that they store."""
    return sorted({keeper for each in copies for keeper in each.servers - each.current if keeper in keepers})


async def wait_current(connection: NatsConnection, without: str) -> None:
    """Wait until each stream has three current copies, none on a server. Raises `FleetError`."""
    end = asyncio.get_running_loop().time() + CURRENT_SECONDS
    while True:
        copies = await stream_copies(connection)
        missing = [each.name for each in copies if len(each.current - {without}) < COPIES]
        if not missing:
            return
        if asyncio.get_running_loop().time() > end:
            raise FleetError(
                f"{missing[0]} has fewer than {COPIES} copies after {CURRENT_SECONDS:g} s",
                "Look at the nodes with `svc fleet status`; the copies continue.",
            )
        await asyncio.sleep(POLL_SECONDS)


async def hand_over(connection: NatsConnection, server: str) -> int:
    """Move the leadership of streams from a server to others; return their number. Raises `BucketError`."""
    led = [each.name for each in await stream_copies(connection) if each.leader == server]
    for name in led:
        await connection.api(f"STREAM.LEADER.STEPDOWN.{name}", {})
    return len(led)


async def remove_server(address: ClusterAddress, server: str) -> None:
    """Remove a server from the cluster; its copies move. `address` is that of the system account.

    Raises `BucketError`.
    """
    connection = await NatsConnection.open(address)
    patience = Patience("the removal of a node", CURRENT_SECONDS)
    try:
        while True:
            # After a lost answer the server is not a member any more.
            allowed = (_NOT_A_MEMBER, _IN_PROGRESS)
            answer = await connection.api("SERVER.REMOVE", {"peer": server}, allowed=allowed)
            if error_code(answer) != _IN_PROGRESS:
                return
            await patience.pause()
    finally:
        await connection.aclose()
