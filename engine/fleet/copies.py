"""Where the streams of a cluster are stored: their leaders, and the servers with current copies."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.fleet.connection import ClusterAddress, NatsConnection, Patience
from engine.fleet.errors import ClusterRefused, FleetError

COPIES = 3
CURRENT_SECONDS = 120.0
"""How long a new copy may take."""
POLL_SECONDS = 0.2
_NOT_A_MEMBER = 10044
_IN_PROGRESS = 10202
"""Error code while another server joins or is removed."""


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
        if "error" in answer:
            raise _refused(f"STREAM.INFO.{name}", answer)
        cluster = answer["cluster"]
        leader, others = cluster.get("leader", ""), cluster.get("replicas") or ()
        present = {each["name"] for each in others if each.get("current") and not each.get("offline")}
        servers = frozenset({leader, *(each["name"] for each in others)} - {""})
        copies.append(StreamCopies(name, leader, frozenset({leader} - {""} | present), servers))
    return copies


def behind(copies: Sequence[StreamCopies], keepers: Collection[str]) -> list[str]:
    """Return the keepers that lack a current copy of a stream that they store."""
    return sorted(
        keeper
        for keeper in keepers
        if any(keeper in each.servers and keeper not in each.current for each in copies)
    )


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
        answer = await connection.api(f"STREAM.LEADER.STEPDOWN.{name}", {})
        if "error" in answer:
            raise _refused(f"STREAM.LEADER.STEPDOWN.{name}", answer)
    return len(led)


async def remove_server(address: ClusterAddress, server: str) -> None:
    """Remove a server from the cluster; its copies move. `address` is that of the system account.

    Raises `BucketError`.
    """
    connection = await NatsConnection.open(address)
    patience = Patience("the removal of a node", CURRENT_SECONDS)
    content = b'{"peer": "%s"}' % server.encode()
    try:
        while True:
            answer = await connection.request("$JS.API.SERVER.REMOVE", content, patience)
            code = answer.get("error", {}).get("err_code")
            # After a lost answer the server is not a member any more.
            if code in (None, _NOT_A_MEMBER):
                return
            if code != _IN_PROGRESS:
                raise _refused("SERVER.REMOVE", answer)
            await patience.pause()
    finally:
        await connection.aclose()


def _refused(method: str, answer: Mapping[str, object]) -> ClusterRefused:
    return ClusterRefused(f"the fleet refused {method}: {answer['error']}", "Try again.")
