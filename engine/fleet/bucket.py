"""The bucket on a JetStream cluster: three streams with three copies of each message.

Several buckets can share the streams, each in a namespace.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.fleet.blobs import StreamBlobs
from engine.fleet.connection import ClusterAddress, NatsConnection
from engine.fleet.errors import UnsuitableCluster
from engine.fleet.kv import StreamKeyValue
from engine.fleet.stream import JetStream

VALUES = "svc-kv"
NAMESPACE = "svc"
"""The namespace of a fleet."""
MIN_VERSION = (2, 12)
JETSTREAM_SECONDS = 6.0
_LAST_ONLY: Mapping[str, object] = {"max_msgs_per_subject": 1, "discard": "old"}
STREAMS: Mapping[str, Mapping[str, object]] = {
    VALUES: _LAST_ONLY,
    "svc-records": _LAST_ONLY,
    "svc-blobs": {"discard": "new"},
}


class JetStreamBucket:
    """Implements `engine.bucket.protocols.Bucket`."""

    def __init__(self, connection: NatsConnection, namespace: str, uploads: Path) -> None:
        """Use streams that exist (`open`)."""
        self.connection, self.namespace = connection, namespace
        records = StreamKeyValue(JetStream(connection, "svc-records", f"{namespace}.blobs"))
        self.kv = StreamKeyValue(JetStream(connection, VALUES, namespace))
        self.blobs = StreamBlobs(JetStream(connection, "svc-blobs", namespace), records, uploads)
        self.fleet = StreamKeyValue(JetStream(connection, "svc-records", f"{namespace}.fleet"))
        """Records of the fleet itself, which backups do not contain."""

    @classmethod
    async def open(
        cls, address: ClusterAddress, namespace: str, uploads: Path, *, create: bool = True
    ) -> "JetStreamBucket":
        """Connect and create the streams; without `create` they must exist.

        `uploads` is a folder for uploads in progress. Raises `FleetNotInstalled`, `ClusterRefused`,
        `UnsuitableCluster` and `Unavailable`.
        """
        connection = await NatsConnection.open(address)
        try:
            if (version := connection.server_version) < MIN_VERSION:
                raise UnsuitableCluster(
                    f"{address.shown} runs nats-server {'.'.join(map(str, version))}",
                    "Update it to 2.12 or newer.",
                )
            await connection.api("INFO", {}, JETSTREAM_SECONDS)
            for name, config in STREAMS.items():
                stream = JetStream(connection, name, namespace)
                if create:
                    await stream.create(**config)
                elif not await stream.exists({}):
                    raise UnsuitableCluster(
                        f"the fleet at {address.shown} has no stream {name}", "Start the fleet first."
                    )
        except BaseException:
            await connection.aclose()
            raise
        return cls(connection, namespace, uploads)

    async def aclose(self) -> None:
        """See the protocol."""
        await self.blobs.aclose()
        await self.connection.aclose()
