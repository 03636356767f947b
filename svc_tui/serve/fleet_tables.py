"""Tables of a service that is a node of a fleet."""

from pathlib import Path

from doors.tables.replication.lag import LagMeter
from doors.tables.replication.replicas import Replicas
from doors.tables.replication.seeding import Seeding
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.fleet import Fleet
from engine.fleet.tables_log import TablesLog


class FleetTables:
    """Replicates the tables of all projects once the service uses the bucket of its fleet."""

    def __init__(self, projects: Path, fleet: Fleet) -> None:
        """`projects` has the data folder of each project."""
        self._projects, self._fleet = projects, fleet
        self._seeding: Seeding | None = None
        self._replicas: Replicas | None = None
        self._lag: LagMeter | None = None

    def _log(self, bucket: JetStreamBucket) -> TablesLog:
        node = self._fleet.node
        assert node is not None
        return TablesLog(bucket.connection, bucket.namespace, node.fleet, node.node, self._present)

    def _present(self) -> set[str]:
        return self._fleet.presence.present() if self._fleet.presence is not None else set()

    async def carry(self, bucket: JetStreamBucket) -> None:
        """Copy the tables to a fleet that this service founds; they cannot change until `start`.

        Raises `SvcError`; then nothing has changed.
        """
        log = self._log(bucket)
        await log.create()
        await log.clear()
        seeding = Seeding(log, self._projects)
        try:
            await seeding.run()
        except BaseException:
            seeding.rollback()
            raise
        self._seeding = seeding

    async def start(self, bucket: JetStreamBucket) -> None:
        """Replicate from now on. Raises `SvcError`."""
        log = self._log(bucket)
        await log.create()
        self._replicas = Replicas(log, self._projects)
        self._replicas.start()
        self._lag = LagMeter(log)
        if self._seeding is not None:
            self._seeding.commit()
            self._seeding = None

    async def lag_ms(self, project: str) -> int | None:
        """Return how far the copy of a project is behind the log, or of "" that of all; None if unknown.

        A copy is unknown until it was used.
        """
        if self._replicas is None or self._lag is None:
            return None
        opened = self._replicas.opened()
        if project:
            opened = {name: replica for name, replica in opened.items() if name == project}
        return await self._lag.measure(opened)

    async def aclose(self) -> None:
        """Stop replication. The tables must be closed."""
        if self._seeding is not None:
            self._seeding.rollback()
        if self._replicas is not None:
            await self._replicas.aclose()
