"""`wasi:sockets@0.2` and `wasi:filesystem@0.2`: denied. Guests use `wasi:http/outgoing-handler` instead.

Functions that create sockets or look up names return `access-denied`; there are no preopened folders. Methods
of sockets and descriptors are not registered, because a guest cannot hold one. The linker binds every
unregistered function to a trap that names it.
"""

from typing import NoReturn

from engine.wasm.capi.values import Err
from engine.wasm.execution.run_state import RunState
from engine.wasm.wasi.io import IoError
from engine.wasm.wasi.registry import host, resource, resources_without_instances

resources_without_instances(
    "tcp-socket",
    "udp-socket",
    "incoming-datagram-stream",
    "outgoing-datagram-stream",
    "resolve-address-stream",
    "descriptor",
    "directory-entry-stream",
)


@resource("network")
class Network:
    """A handle without any rights."""


@host("wasi:sockets/instance-network", "instance-network")
def instance_network(run: RunState) -> Network:
    """Return the handle required by the functions below."""
    return Network()


@host("wasi:sockets/tcp-create-socket", "create-tcp-socket")
@host("wasi:sockets/udp-create-socket", "create-udp-socket")
@host("wasi:sockets/ip-name-lookup", "resolve-addresses")
def denied(run: RunState, *_arguments: object) -> NoReturn:
    """Raise `Err`: access denied."""
    raise Err("access-denied")


@host("wasi:filesystem/preopens", "get-directories")
def get_directories(run: RunState) -> list[tuple[object, str]]:
    """Return an empty list."""
    return []


@host("wasi:sockets/network", "network-error-code")
@host("wasi:filesystem/types", "filesystem-error-code")
def no_error_code(run: RunState, error: IoError) -> None:
    """Return `None`: no stream belongs to a socket or a file."""
