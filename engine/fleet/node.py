"""Files of a fleet's node, which `svc fleet start` and `svc serve --join` make in its data directory."""

import json
import secrets
import shutil
import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from engine.bucket.protocols import disk_error, disk_errors
from engine.files.atomic import rename_durably, sync_folder, write_atomic
from engine.fleet.connection import ClusterAddress
from engine.fleet.errors import FleetError

if TYPE_CHECKING:
    from engine.certificates.private import Issuer

FORMAT = 3
"""Format 1 lacks `keepers`, format 2 has public keys of accounts."""
NODE_FOLDER = "fleet"
NODE_FILE = "fleet.json"
STORE = Path("nats", "store")
"""Folder of the nats-server's store within that of the node."""
UPLOADS = "uploads"
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "node.pem", "node.key"
CLIENT, SYSTEM = "client.seed", "system.seed"
"""Passwords of the account that stores data, and of the one that changes the members of the cluster."""
AUTHORITY_KEY = "ca.key"
DEFAULT_PORT = 4222
JOIN_OFFSET, ROUTE_OFFSET, MONITOR_OFFSET = 1000, 2000, 4000
"""Ports for joining nodes, routes and monitoring are this much above the port for clients."""
MAX_PORT = 65535 - MONITOR_OFFSET


class NodeAddress(NamedTuple):
    """Host and port of a node for clients."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def join(self) -> "NodeAddress":
        return NodeAddress(self.host, self.port + JOIN_OFFSET)

    @property
    def route(self) -> "NodeAddress":
        return NodeAddress(self.host, self.port + ROUTE_OFFSET)

    @property
    def monitor(self) -> "NodeAddress":
        return NodeAddress("127.0.0.1", self.port + MONITOR_OFFSET)


State = Literal["founding", "joining", "member"]
"""`founding`: the first node, which serves from its data directory. `joining`: waits for the fleet to serve.
`member`: the fleet has the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """The document of a node's folder. `nodes` are the addresses of nodes that run a nats-server.

    `keepers` are their ids, which are known once the fleet serves. `store_key` encrypts this node's store.
    `token` and `nonce` are those of the request of a node that waits for the fleet.
    """

    fleet: str
    node: str
    address: NodeAddress
    nodes: tuple[NodeAddress, ...]
    state: State
    store_key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    keeper: bool = True
    keepers: tuple[str, ...] = ()
    token: str = ""
    nonce: str = ""

    def text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def read(cls, folder: Path) -> "FleetNode":
        """Read the document of a folder. Raises `SvcError`."""
        from pydantic import TypeAdapter

        path = folder / NODE_FILE
        try:
            document: dict[str, Any] = json.loads(path.read_bytes())
            if (form := document.pop("format")) > FORMAT:
                raise FleetError(f"{path} has format {form}; this svc supports {FORMAT}", "Update svc.")
            return TypeAdapter(cls).validate_python(document)
        except FileNotFoundError as error:
            raise FleetError(f"{path} not found", "Pass the data directory of a node: --data DIR") from error
        except OSError as error:
            raise disk_error(path, error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Restore it, or join again with an empty data directory."
            raise FleetError(f"{path} is corrupt", hint) from error

    def save(self, folder: Path, **changes: Any) -> "FleetNode":
        """Change fields, replace the document of the folder, and return the new node. Raises `SvcError`."""
        node = replace(self, **changes)
        with disk_errors(folder):
            write_atomic(folder / NODE_FILE, node.text().encode(), sync=True)
            sync_folder(folder)
        return node


def find_node(data: Path) -> FleetNode | None:
    """Return the node in a data directory, if there is one. Raises `SvcError`."""
    folder = data / NODE_FOLDER
    return FleetNode.read(folder) if (folder / NODE_FILE).exists() else None


def node_id(number: int) -> str:
    return f"n{number}-{secrets.token_hex(3)}"


def found_node(folder: Path, address: NodeAddress) -> FleetNode:
    """Create a new fleet, and the folder of its first node. Raises `SvcError`."""
    from engine.certificates.private import Issuer

    name = secrets.token_hex(3)
    node = FleetNode(fleet=name, node=node_id(1), address=address, nodes=(address,), state="founding")
    create_keeper(folder, node, Issuer.create(name), secrets.token_urlsafe(32), secrets.token_urlsafe(32))
    return node


def create_keeper(folder: Path, node: FleetNode, authority: "Issuer", client: str, system: str) -> None:
    """Create the folder of a node that has all keys of its fleet, and these passwords. Raises `SvcError`."""
    pair = authority.issue(node.node, node.address.host)
    files = {
        AUTHORITY: authority.pair.chain,
        AUTHORITY_KEY: authority.pair.key,
        CERTIFICATE: pair.chain,
        KEY: pair.key,
        CLIENT: client,
        SYSTEM: system,
    }
    create_node(folder, node, files)


def create_node(folder: Path, node: FleetNode, files: Mapping[str, str]) -> None:
    """Create the folder of one node, with the files of its keys. Raises `SvcError`.

    A folder without a document, as an interrupted call leaves it, is replaced.
    """
    with disk_errors(folder):
        if (folder / NODE_FILE).exists():
            raise FleetError(f"{folder} belongs to a node already", "Use another data directory.")
        new = folder.with_name(folder.name + ".new")
        for path in (new, folder):
            if path.exists():
                shutil.rmtree(path)
        new.mkdir(mode=0o700)
        for name, content in {**files, NODE_FILE: node.text()}.items():
            write_atomic(new / name, content.encode(), sync=True)
        rename_durably(new, folder)


def cluster_address(folder: Path, node: FleetNode, account: str = CLIENT) -> ClusterAddress:
    """Return how a node reaches the cluster: its own server first. Raises `SvcError`."""
    try:
        tls = ssl.create_default_context(cafile=folder / AUTHORITY)
        tls.load_cert_chain(folder / CERTIFICATE, folder / KEY)
        password = read_password(folder, account)
    except (OSError, ssl.SSLError) as error:
        hint = "Restore the folder."
        raise FleetError(f"the certificates of the node in {folder} cannot be used: {error}", hint) from error
    servers = sorted(node.nodes, key=lambda address: address != node.address)
    urls = tuple(f"tls://{address}" for address in servers)
    return ClusterAddress(servers=urls, tls=tls, user=account, password=password)


def read_password(folder: Path, account: str) -> str:
    """Return the password of an account, the seed of a key in a fleet of an earlier svc. Raises OSError."""
    return (folder / account).read_text(errors="replace").strip()


def own_host(towards: NodeAddress) -> str:
    """Return this machine's address towards another one. Sends nothing to it. Raises OSError."""
    family, kind, _, _, address = socket.getaddrinfo(*towards, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def check_address(address: NodeAddress) -> None:
    """Raise `FleetError` if a node cannot listen on one of its ports."""
    for each in (address, address.join, address.route, address.monitor):
        family = socket.AF_INET6 if ":" in each.host else socket.AF_INET
        try:
            socket.create_server(each, family=family).close()
        except OSError as error:
            cause = str(error.strerror).partition(" (while")[0]  # Without the address again.
            hint = "Use an address of this machine with a free port, or stop the program that uses the port."
            raise FleetError(f"cannot listen on {each}: {cause}", hint) from error
