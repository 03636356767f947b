"""`wasi:sockets@0.2`: denied. Guests reach the network through `wasi:http/outgoing-handler` and `egress`.

What makes a socket or looks up a name answers `access-denied`; methods of sockets are not registered,
since a guest can hold none to call them on.
"""

from engine.wasm.capi.values import Err
from engine.wasm.execution.run_state import Run
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import host, resource


@resource("network")
class Network:
    """A handle that opens nothing."""


@resource("tcp-socket")
class TcpSocket:
    """Never given to a guest."""


@resource("udp-socket")
class UdpSocket:
    """Never given to a guest."""


@resource("incoming-datagram-stream")
class IncomingDatagramStream:
    """Never given to a guest."""


@resource("outgoing-datagram-stream")
class OutgoingDatagramStream:
    """Never given to a guest."""


@resource("resolve-address-stream")
class ResolveAddressStream:
    """Never given to a guest."""


@host("wasi:sockets/instance-network", "instance-network")
def instance_network(run: Run) -> Network:
    """Return the handle that the calls below want; it is worth nothing."""
    return Network()


@host("wasi:sockets/network", "network-error-code")
def network_error_code(run: Run, error: IoError) -> None:
    """No stream here is a socket's."""


@host("wasi:sockets/tcp-create-socket", "create-tcp-socket")
def create_tcp_socket(run: Run, family: str) -> TcpSocket:
    """Denied."""
    raise Err("access-denied")


@host("wasi:sockets/udp-create-socket", "create-udp-socket")
def create_udp_socket(run: Run, family: str) -> UdpSocket:
    """Denied."""
    raise Err("access-denied")


@host("wasi:sockets/ip-name-lookup", "resolve-addresses")
def resolve_addresses(run: Run, network: Network, name: str) -> ResolveAddressStream:
    """Denied."""
    raise Err("access-denied")
