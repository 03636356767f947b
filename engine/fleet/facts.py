"""Facts that a node asks the others for: the majority, the leader of the tables' log, and lags."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from engine.bucket.errors import BucketError
from engine.errors import SvcError
from engine.fleet.connection import NatsConnection
from engine.fleet.questions import Document, Questions
from engine.fleet.tables_log import STREAM

ASK_SECONDS = 3.0
"""Longer than a node measures its copies."""
TABLES = "tables"
"""Kind of the question how the tables of a `project` ("": of all) are: `lag_ms` and `troubles`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """`quorum`: the log of the tables has a leader, thus a majority. `leader` is that node, or empty.

    `lag_ms` of a node: how far its copy of the tables is behind the log, `None` if it is unknown. `troubles`
    of a node: its copies that are not up to date, each as a document with `project`, `since` and `problem`.
    """

    quorum: bool = False
    leader: str = ""
    lag_ms: Mapping[str, int | None] = field(default_factory=dict)
    troubles: Mapping[str, Sequence[Document]] = field(default_factory=dict)


async def find_facts(
    connection: NatsConnection, questions: Questions, nodes: Collection[str], project: str
) -> FleetFacts:
    """Ask nodes about the tables of a project, or of "" about all tables."""
    asking = asyncio.gather(*(_tables(questions, node, project) for node in nodes))
    leader, tables = await asyncio.gather(_leader(connection), asking)
    return FleetFacts(
        quorum=bool(leader),
        leader=leader,
        lag_ms={node: answer.get("lag_ms") for node, answer in zip(nodes, tables, strict=True)},
        troubles={node: answer.get("troubles", ()) for node, answer in zip(nodes, tables, strict=True)},
    )


async def _leader(connection: NatsConnection) -> str:
    """Return the leader of the tables' log, or an empty string: without a majority there is none."""
    try:
        async with asyncio.timeout(ASK_SECONDS):
            answer = await connection.api(f"STREAM.INFO.{STREAM}", {})
    except (BucketError, TimeoutError):
        return ""
    return str(answer.get("cluster", {}).get("leader", ""))


async def _tables(questions: Questions, node: str, project: str) -> Document:
    try:
        return await questions.ask(node, TABLES, {"project": project}, ASK_SECONDS)
    except SvcError:
        return {}
