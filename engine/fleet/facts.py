"""State of the whole fleet as a node observes it: majority, leader of the tables' log, and lags."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.bucket.errors import BucketError
from engine.fleet.connection import NatsConnection
from engine.fleet.tables_log import STREAM
from engine.peers import NodeAway, Peers

ASK_SECONDS = 1.5
_SUBJECT = "tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """`quorum`: the log of the tables has a leader, thus a majority. `leader` is that node, or empty.

    `lag_ms` of a node: how far its copy of the tables is behind the log, `None` if it is unknown. `seen_ns`:
    the last sign of life, as Unix time.
    """

    quorum: bool = False
    leader: str = ""
    lag_ms: Mapping[str, int | None] = field(default_factory=dict)
    seen_ns: Mapping[str, int | None] = field(default_factory=dict)


async def find_facts(connection: NatsConnection, peers: Peers, project: str) -> FleetFacts:
    """Ask all nodes about the tables of a project, or of "" about all tables."""
    nodes = await peers.nodes()
    asking = asyncio.gather(*(_lag(peers, node, project) for node in nodes))
    leader, lags = await asyncio.gather(_leader(connection), asking)
    return FleetFacts(
        quorum=bool(leader),
        leader=leader,
        lag_ms=dict(lags),
        seen_ns={node: peers.last_seen(node) for node in nodes},
    )


async def _leader(connection: NatsConnection) -> str:
    """Return the leader of the tables' log, or an empty string: without a majority there is none."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            answer = await connection.api(f"STREAM.INFO.{STREAM}", {})
    except (BucketError, TimeoutError):
        return ""
    return str(answer.get("cluster", {}).get("leader", ""))


async def _lag(peers: Peers, node: str, project: str) -> tuple[str, int | None]:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return node, (await peers.ask(node, _SUBJECT, project, {}))["lag_ms"]
    except (NodeAway, TimeoutError):
        return node, None
