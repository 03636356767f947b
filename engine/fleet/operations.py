"""Changes of a fleet that serves: nodes that stop, are upgraded, or leave."""

from contextlib import suppress
from dataclasses import dataclass

from engine.fleet.copies import COPIES, behind, hand_over, remove_server, stream_copies, wait_current
from engine.fleet.errors import FleetError
from engine.fleet.facts import FleetFacts
from engine.fleet.fleet import Fleet
from engine.fleet.node import SYSTEM_SEED, cluster_address
from engine.fleet.registry import Member

WAIT_SECONDS = 4.0
"""How long an operation waits for a heartbeat of another node."""
_STATUS = "Look at the nodes with `svc fleet status`."


@dataclass(frozen=True, slots=True)
class Drained:
    """A node that takes no requests; `streams` are now led by others."""

    node: str
    streams: int


async def drain(fleet: Fleet) -> Drained:
    """Stop taking requests, wait for the last one to end, and let other nodes lead. Raises `SvcError`."""
    node, bucket = fleet.require_node(), fleet.cluster
    await _present(fleet)
    fleet.draining.set()
    await fleet.drained.wait()
    streams = await hand_over(bucket.connection, node.node) if node.keeper else 0
    return Drained(node.node, streams)


async def prepare_upgrade(fleet: Fleet, facts: FleetFacts) -> Drained:
    """Drain this node for an upgrade, after checks that the others can do without it. Raises `SvcError`."""
    node = fleet.require_node()
    present = await _present(fleet)
    members = await fleet.registry().members()
    if away := [member.id for member in members if member.id not in present]:
        raise FleetError(f"{away[0]} is away: upgrade one node at a time, while all others run", _STATUS)
    status = await fleet.status()
    if busy := [each.member.id for each in status.members if each.draining and not each.this]:
        raise FleetError(f"{busy[0]} is drained", "Start its service again first.")
    late = behind(await stream_copies(fleet.cluster.connection), [each.id for each in members])
    if late or not status.healthy:
        raise FleetError(f"{(late or [node.node])[0]} lacks the last writes", "Wait until it has them.")
    for id_, copy in [(id_, copy) for id_, copies in facts.troubles.items() for copy in copies]:
        raise FleetError(
            f"the tables of {copy['project']} on {id_} are not up to date: {copy['problem']}",
            f"Wait until they are. If they stay so: svc fleet repair {copy['project']} --from NODE",
        )
    return await drain(fleet)


async def remove(fleet: Fleet, id_: str) -> Member:
    """Remove a node that does not run, and return it. Raises `SvcError`.

    A keeper is removed once another one can store its data.
    """
    node, bucket = fleet.require_node(), fleet.cluster
    present = await _present(fleet)
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
    await fleet.registry(bucket.fleet).remove(id_)
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
    await remove_server(cluster_address(fleet.folder, fleet.require_node(), SYSTEM_SEED), member.id)
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
