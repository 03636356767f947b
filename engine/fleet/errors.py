"""Errors of the fleet."""

from engine.bucket.protocols import BucketError
from engine.errors import SvcError

INSTALL = "Install it: pip install 'svc-tui[fleet]'"


class FleetNotInstalled(BucketError):
    """The optional packages of the extra `fleet` are missing."""

    code = "fleet-not-installed"

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is not installed", INSTALL)


class FleetError(SvcError):
    """The fleet, or the files of its nodes, cannot be created, joined or used."""

    code = "fleet"


class FleetStopped(FleetError):
    """The service was stopped while it waited for its fleet."""


class WorkersRefused(FleetError):
    """A service with several processes cannot be a node."""

    def __init__(self, processes: int) -> None:
        super().__init__(
            f"a node of a fleet serves with one process, not with --workers {processes}",
            "Start the service without --workers. To use more processors, add nodes.",
        )


class Unavailable(BucketError):
    """The cluster did not answer in time. A write may have been stored; repeating the operation is safe."""

    code = "bucket-unavailable"

    def __init__(self, operation: str, seconds: float) -> None:
        super().__init__(
            f"the fleet did not answer {operation} within {seconds:g} s",
            "Retry when a majority of its keepers runs and is reachable.",
        )


class ClusterRefused(BucketError):
    """The cluster refused the connection or an operation."""

    code = "bucket-refused"


class ConnectionInterrupted(BucketError):
    """The connection to the cluster was lost during an operation that the caller can repeat."""

    code = "bucket-unavailable"

    def __init__(self) -> None:
        super().__init__("the connection to the fleet was interrupted", "Retry.")


class UnsuitableCluster(BucketError):
    """A nats-server of the fleet has a version or setting that svc cannot use."""

    code = "bucket-unsuitable"


class NatsServerFailed(BucketError):
    """The supervised nats-server cannot run."""

    code = "nats-server"
