"""Questions between this service and the other nodes of its fleet."""

from functools import partial
from pathlib import Path

from engine.control.node_answers import NodeAnswers
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.facts import FleetFacts, find_facts
from engine.fleet.fleet import Fleet
from engine.fleet.peers import FleetPeers
from engine.peers import PeersOfService
from engine.timeline.fleet_sql import remove_copies
from svc_tui.serve.control_api import project_dir
from svc_tui.serve.fleet_tables import FleetTables


class PeersOfFleet:
    """Asks and answers once the service uses the bucket of its fleet."""

    def __init__(self, data: Path, tables: FleetTables) -> None:
        self.slot = PeersOfService()
        remove_copies(data / "projects")
        self._answers = NodeAnswers(partial(project_dir, data), tables.lag_ms)
        self._peers: FleetPeers | None = None
        self._bucket: JetStreamBucket | None = None

    async def start(self, bucket: JetStreamBucket, fleet: Fleet) -> None:
        """Ask and answer from now on. Raises `BucketError`."""
        assert fleet.presence is not None

        async def members() -> list[str]:
            return [member.id for member in await fleet.members.read(fleet.registry())]

        self._peers = FleetPeers(bucket.connection, bucket.namespace, fleet.presence, members, self._answers)
        await self._peers.start()
        self.slot.current, self._bucket = self._peers, bucket

    async def facts(self, project: str) -> FleetFacts:
        """Return what this node finds out about the fleet and the tables of a project ("": of all)."""
        if self._peers is None or self._bucket is None:
            return FleetFacts()
        return await find_facts(self._bucket.connection, self._peers, project)

    async def aclose(self) -> None:
        """Stop asking and answering."""
        if self._peers is not None:
            await self._peers.aclose()
