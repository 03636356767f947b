"""The part of a service that only a node of a fleet has: replicas of tables and of records, and questions."""

from functools import partial
from pathlib import Path

from doors.tables.replication.lag import LagMeter
from doors.tables.replication.replicas import Replicas
from engine.control.node_answers import NodeAnswers
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.facts import FleetFacts, find_facts
from engine.fleet.fleet import Fleet
from engine.fleet.peers import FleetPeers
from engine.fleet.records import FleetRecords
from engine.fleet.tables_log import TablesLog
from svc_tui.serve.control_api import project_dir


class NodeOfFleet:
    """Replicas and peers. A service without a fleet has none: it does not call `start`."""

    def __init__(self, data: Path) -> None:
        self.peers: FleetPeers | None = None
        self.records: FleetRecords | None = None
        self._data = data
        self._replicas: Replicas | None = None

    async def start(self, bucket: JetStreamBucket, fleet: Fleet) -> None:
        """Replicate tables, publish records, ask and answer from now on. Raises `SvcError`."""
        node, presence = fleet.require_node(), fleet.presence
        assert presence is not None
        log = TablesLog(bucket.connection, bucket.namespace, node.fleet, node.node, presence.present)
        await log.create()
        self._replicas = replicas = Replicas(log, self._data / "projects")
        replicas.start()
        lag = LagMeter(log)

        async def lag_ms(project: str) -> int | None:
            """Return how far the copies of a project ("": of all) are behind the log; None if unknown."""
            opened = replicas.opened()
            return await lag.measure({name: opened[name] for name in opened if project in ("", name)})

        async def members() -> list[str]:
            return [member.id for member in await fleet.members.read(fleet.registry())]

        answers = NodeAnswers(partial(project_dir, self._data), lag_ms)
        self.peers = FleetPeers(bucket.connection, bucket.namespace, presence, members, answers)
        await self.peers.start()
        self.records = FleetRecords(bucket.connection, bucket.namespace, presence, self.peers)
        await self.records.start()
        self._connection = bucket.connection

    async def facts(self, project: str) -> FleetFacts:
        """Return what this node finds out about the fleet and the tables of a project ("": of all)."""
        if self.peers is None:
            return FleetFacts()
        return await find_facts(self._connection, self.peers, project)

    async def aclose(self) -> None:
        """Stop. The tables must be closed."""
        if self.records is not None:
            await self.records.aclose()
        if self.peers is not None:
            await self.peers.aclose()
        if self._replicas is not None:
            await self._replicas.aclose()
