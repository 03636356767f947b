"""`wasi:sockets@0.2`: denied. Guests use `wasi:http/outgoing-handler` and `egress` instead.

Functions that create sockets or look up names return `access-denied`. Methods of sockets are not registered,
because a guest cannot hold a socket.
"""

from engine.wasm.capi.values import Err
from engine.wasm.execution.run_state import Run
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import host, resource


@resource("network")
class Network:
    """A handle without any rights."""


@resource("tcp-socket")
class TcpSocket:
    """Resource type without instances."""


@resource("udp-socket")
class UdpSocket:
    """Resource type without instances."""


@resource("incoming-datagram-stream")
class IncomingDatagramStream:
    """Resource type without instances."""


@resource("outgoing-datagram-stream")
class OutgoingDatagramStream:
    """Resource type without instances."""


@resource("resolve-address-stream")
class ResolveAddressStream:
    """Resource type without instances."""


@host("wasi:sockets/instance-network", "instance-network")
def instance_network(run: Run) -> Network:
    """Return the handle required by the functions below."""
    return Network()


@host("wasi:sockets/network", "network-error-code")
def network_error_code(run: Run, error: IoError) -> None:
    """Return `None`: no stream belongs to a socket."""


@host("wasi:sockets/tcp-create-socket", "create-tcp-socket")
def create_tcp_socket(run: Run, family: str) -> TcpSocket:
    """Raise `Err`: access denied."""
    raise Err("access-denied")


@host("wasi:sockets/udp-create-socket", "create-udp-socket")
def create_udp_socket(run: Run, family: str) -> UdpSocket:
    """Raise `Err`: access denied."""
    raise Err("access-denied")


@host("wasi:sockets/ip-name-lookup", "resolve-addresses")
def resolve_addresses(run: Run, network: Network, name: str) -> ResolveAddressStream:
    """Raise `Err`: access denied."""
    raise Err("access-denied")
