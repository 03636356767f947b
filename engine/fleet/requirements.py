"""Checks of a cluster before its first use. `sync_interval` cannot be read: the operator must set it."""

from engine.fleet.connection import NatsConnection, Patience
from engine.fleet.errors import Unavailable, UnsuitableCluster
from engine.fleet.subjects import subject_of

MIN_VERSION = (2, 12)
MIN_PAYLOAD = 2 << 20
JETSTREAM_SECONDS = 6.0
PROBES = 3

_LONGEST_KEY = "\U00010000" * 512


async def check_cluster(connection: NatsConnection) -> None:
    """Raise `UnsuitableCluster` if the connected server lacks a version or setting that svc requires.

    Raises `ClusterRefused` and `Unavailable` when it cannot find out.
    """
    shown = connection.address.shown
    if connection.server_version < MIN_VERSION:
        version = ".".join(map(str, connection.server_version))
        raise UnsuitableCluster(
            f"the NATS cluster {shown} runs nats-server {version}", "Update its servers to 2.12 or newer."
        )
    if connection.max_payload < MIN_PAYLOAD:
        raise UnsuitableCluster(
            f"the NATS cluster {shown} accepts messages of at most {connection.max_payload} bytes",
            "Set max_payload: 8MB in the configuration of each server and restart them one by one.",
        )
    try:
        info = await connection.request("$JS.API.INFO", b"", Patience("JetStream", JETSTREAM_SECONDS))
        reason = info["error"].get("description") if "error" in info else ""
    except Unavailable:
        reason = "no answer"
    if reason:
        raise UnsuitableCluster(
            f"the NATS cluster {shown} refuses JetStream: {reason}",
            "Enable JetStream on each server and for the account of svc, and check that most servers run.",
        )
    if not await _accepts(connection, subject_of(_LONGEST_KEY)):
        raise UnsuitableCluster(
            f"the NATS cluster {shown} closes connections that use a long key",
            "Set max_control_line: 16KB in the configuration of each server and restart them one by one.",
        )


async def _accepts(connection: NatsConnection, subject: str) -> bool:
    """Return whether a server accepts a subject; tries on connections of their own.

    A connection may also be lost for another reason, therefore one that stays open decides.
    """
    for _ in range(PROBES):
        probe = await NatsConnection.open(connection.address)
        try:
            if await probe.survives(f"svc-probe.{subject}"):
                return True
        finally:
            await probe.aclose()
    return False
