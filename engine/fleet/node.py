"""Files of a fleet's node, which `svc fleet start` and `svc serve --join` make in its data directory."""

import json
import os
import secrets
import shutil
import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine.bucket import durable
from engine.bucket.protocols import disk_error
from engine.files.atomic import write_atomic
from engine.fleet.connection import ClusterAddress
from engine.fleet.errors import FleetError
from engine.fleet.nkeys import Nkey

if TYPE_CHECKING:
    from engine.fleet.authority import Authority

FORMAT = 2
"""Format 1 lacks `keepers`."""
NODE_FOLDER = "fleet"
"""Folder of the node within the data directory."""
NODE_FILE = "fleet.json"
STORE = Path("nats", "store")
"""Folder of the nats-server's store within that of the node."""
UPLOADS = "uploads"
AUTHORITY, CERTIFICATE, KEY, SEED = "ca.pem", "node.pem", "node.key", "client.seed"
SYSTEM_SEED = "system.seed"
"""Seed of the account that changes the members of the cluster."""
AUTHORITY_KEY = "ca.key"
DEFAULT_PORT = 4222
JOIN_OFFSET, ROUTE_OFFSET, MONITOR_OFFSET = 1000, 2000, 4000
"""Ports for joining nodes, routes and monitoring are this much above the port for clients."""
MAX_PORT = 65535 - MONITOR_OFFSET


@dataclass(frozen=True, slots=True, order=True)
class NodeAddress:
    """Host and port of a node for clients."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return self._at(self.port)

    def _at(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    @property
    def join(self) -> "NodeAddress":
        """Address for nodes that join."""
        return NodeAddress(self.host, self.port + JOIN_OFFSET)

    @property
    def route(self) -> str:
        """Address for other nodes."""
        return self._at(self.port + ROUTE_OFFSET)

    @property
    def monitor(self) -> str:
        """Address for health checks, on loopback."""
        return f"127.0.0.1:{self.port + MONITOR_OFFSET}"


State = Literal["founding", "joining", "member"]
"""`founding`: the first node, which serves from its data directory. `joining`: waits for the fleet to serve.
`member`: the fleet has the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """The document of a node's folder. `nodes` are the addresses of nodes that run a nats-server.

    `keepers` are their ids, which are known once the fleet serves. `client` and `system` are public nkeys.
    `store_key` encrypts this node's store. `token` and the signing `request` (PEM) are those of a node that
    waits for the fleet.
    """

    fleet: str
    node: str
    address: NodeAddress
    nodes: tuple[NodeAddress, ...]
    client: str
    system: str
    state: State
    store_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    keeper: bool = True
    keepers: tuple[str, ...] = ()
    token: str = ""
    request: str = ""

    def encode(self) -> bytes:
        """Return the JSON form."""
        addresses = {
            "address": [self.address.host, self.address.port],
            "nodes": [[node.host, node.port] for node in self.nodes],
        }
        return json.dumps({"format": FORMAT, **asdict(self), **addresses}, indent=2).encode() + b"\n"

    @classmethod
    def read(cls, folder: Path) -> "FleetNode":
        """Read the document of a folder. Raises `SvcError`."""
        path = folder / NODE_FILE
        try:
            document: dict[str, Any] = json.loads(path.read_bytes())
            if (form := document.pop("format")) > FORMAT:
                raise FleetError(f"{path} has format {form}; this svc supports {FORMAT}", "Update svc.")
            document["address"] = NodeAddress(*document["address"])
            document["nodes"] = tuple(NodeAddress(host, port) for host, port in document["nodes"])
            document["keepers"] = tuple(document.get("keepers", ()))
            return cls(**document)
        except FileNotFoundError as error:
            raise FleetError(f"{path} not found", "Pass the data directory of a node: --data DIR") from error
        except OSError as error:
            raise disk_error(path, error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError(
                f"{path} is corrupt", "Restore it, or join again with an empty data directory."
            ) from error

    def save(self, folder: Path, **changes: Any) -> "FleetNode":
        """Change fields, replace the document of the folder, and return the new node. Raises `SvcError`."""
        node = replace(self, **changes)
        try:
            write_atomic(folder / NODE_FILE, node.encode(), sync=True)
            durable.sync_folder(folder)
        except OSError as error:
            raise disk_error(folder, error) from error
        return node


def find_node(data: Path) -> FleetNode | None:
    """Return the node in a data directory, if there is one. Raises `SvcError`."""
    folder = data / NODE_FOLDER
    return FleetNode.read(folder) if (folder / NODE_FILE).exists() else None


def node_id(number: int) -> str:
    """Return a new id, which contains the node's number."""
    return f"n{number}-{secrets.token_hex(3)}"


def found_node(folder: Path, address: NodeAddress) -> FleetNode:
    """Create a new fleet, and the folder of its first node. Raises `SvcError`."""
    from engine.fleet.authority import Authority

    name, client, system = secrets.token_hex(3), Nkey.create(), Nkey.create()
    node = FleetNode(
        fleet=name,
        node=node_id(1),
        address=address,
        nodes=(address,),
        client=client.public,
        system=system.public,
        state="founding",
    )
    create_keeper(folder, node, Authority.create(name), client, system)
    return node


def create_keeper(folder: Path, node: FleetNode, authority: "Authority", client: Nkey, system: Nkey) -> None:
    """Create the folder of a node that has all keys of its fleet. Raises `SvcError`."""
    pair = authority.issue(node.node, [node.address.host])
    files = {
        AUTHORITY: authority.pair.certificate,
        AUTHORITY_KEY: authority.pair.key,
        CERTIFICATE: pair.certificate,
        KEY: pair.key,
        SEED: client.seed.encode() + b"\n",
        SYSTEM_SEED: system.seed.encode() + b"\n",
    }
    create_node(folder, node, files)


def create_node(folder: Path, node: FleetNode, files: Mapping[str, bytes]) -> None:
    """Create the folder of one node, with the files of its keys. Raises `SvcError`.

    A folder without a document, as an interrupted call leaves it, is replaced.
    """
    try:
        if (folder / NODE_FILE).exists():
            raise FleetError(f"{folder} belongs to a node already", "Use another data directory.")
        new = folder.with_name(folder.name + ".new")
        for path in (new, folder):
            if path.exists():
                shutil.rmtree(path)
        new.mkdir(mode=0o700)
        for name, content in {**files, NODE_FILE: node.encode()}.items():
            with os.fdopen(os.open(new / name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                durable.sync(file.fileno())
        durable.rename(new, folder)
    except OSError as error:
        raise disk_error(folder, error) from error


def cluster_address(folder: Path, node: FleetNode, seed: str = SEED) -> ClusterAddress:
    """Return how a node reaches the cluster: its own server first. Raises `SvcError`.

    `seed` is the file of the account's nkey.
    """
    try:
        tls = ssl.create_default_context(cafile=folder / AUTHORITY)
        tls.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    except (OSError, ssl.SSLError) as error:
        raise FleetError(
            f"the certificates of the node in {folder} cannot be used: {error}", "Restore the folder."
        ) from error
    servers = sorted(node.nodes, key=lambda address: address != node.address)
    urls = tuple(f"tls://{address}" for address in servers)
    return ClusterAddress(servers=urls, tls=tls, nkey=Nkey.read(folder / seed))


def check_address(address: NodeAddress) -> None:
    """Raise `FleetError` if a node cannot listen on one of its ports."""
    for text in (str(address), str(address.join), address.route, address.monitor):
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, int(port)), family=family).close()
        except OSError as error:
            cause = str(error.strerror).partition(" (while")[0]  # Without the address again.
            raise FleetError(
                f"cannot listen on {text}: {cause}",
                "Use an address of this machine with a free port, or stop the program that uses the port.",
            ) from error
