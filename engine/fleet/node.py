"""Files of a fleet's nodes: one folder each, which a machine needs to run its nats-server.

The folder of the authority stays with the operator. It has the key that issues certificates.
"""

import json
import os
import secrets
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bucket.errors import disk_error
from engine.errors import SvcError
from engine.fleet.authority import AUTHORITY_DAYS, Authority
from engine.fleet.nats_server import NatsServerSettings
from engine.fleet.nkeys import Nkey

FORMAT = 1
FILE = "fleet.json"
AUTHORITY, CERTIFICATE, KEY, SEED = "ca.pem", "node.pem", "node.key", "client.seed"
AUTHORITY_FOLDER, AUTHORITY_KEY = "authority", "ca.key"
DEFAULT_PORT = 4222
ROUTE_OFFSET, MONITOR_OFFSET = 2000, 4000
"""Ports of routes and monitoring are this much above the port for clients."""
MAX_PORT = 65535 - MONITOR_OFFSET
DISK_SHARE = 0.8
"""Share of the free disk space that the store may fill."""
NODE_COUNTS = (3, 5)


class FleetError(SvcError):
    """The files of a fleet cannot be written or used."""

    code = "fleet"


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
    def route(self) -> str:
        """Address for other nodes."""
        return self._at(self.port + ROUTE_OFFSET)

    @property
    def monitor(self) -> str:
        """Address for health checks, on loopback."""
        return f"127.0.0.1:{self.port + MONITOR_OFFSET}"


def create_fleet(folder: Path, nodes: Sequence[NodeAddress]) -> list[Path]:
    """Create the keys of a fleet in a new folder; return the folders of its nodes. Raises `SvcError`."""
    if len(nodes) not in NODE_COUNTS or len(set(nodes)) < len(nodes):
        raise FleetError(
            f"a fleet of {len(set(nodes))} nodes cannot be created",
            "Pass --node for 3 or 5 different addresses.",
        )
    fleet = secrets.token_hex(4)
    authority, client, system = Authority.create(fleet), Nkey.create(), Nkey.create()
    try:
        folder.mkdir(parents=True, mode=0o700)
        _write(
            folder / AUTHORITY_FOLDER,
            {AUTHORITY: authority.pair.certificate, AUTHORITY_KEY: authority.pair.key},
        )
        folders = []
        for number, address in enumerate(nodes, 1):
            name = f"n{number}-{secrets.token_hex(3)}"
            pair = authority.issue(name, [address.host], AUTHORITY_DAYS)
            document = {
                "format": FORMAT,
                "fleet": fleet,
                "node": name,
                "address": [address.host, address.port],
                "nodes": [[node.host, node.port] for node in nodes],
                "client": client.public,
                "system": system.public,
                "store_key": secrets.token_urlsafe(32),
            }
            files = {
                FILE: json.dumps(document, indent=2).encode() + b"\n",
                AUTHORITY: authority.pair.certificate,
                CERTIFICATE: pair.certificate,
                KEY: pair.key,
                SEED: client.seed.encode() + b"\n",
            }
            folders.append(folder / f"node{number}")
            _write(folders[-1], files)
    except FileExistsError as error:
        raise FleetError(f"{folder} exists", "Name a new folder.") from error
    except OSError as error:
        raise disk_error(folder, error) from error
    return folders


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def load_node(folder: Path) -> tuple[NatsServerSettings, list[NodeAddress]]:
    """Return how to run a node's nats-server, and the addresses of all nodes. Raises `SvcError`."""
    path = folder / FILE
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise FleetError(
                f"{path} has format {document['format']}; this svc supports {FORMAT}", "Update svc."
            )
        nodes = [NodeAddress(host, port) for host, port in document["nodes"]]
        address = NodeAddress(*document["address"])
        store = folder / "nats"
        used = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        settings = NatsServerSettings(
            name=document["node"],
            cluster=f"svc-{document['fleet']}",
            folder=store,
            listen=str(address),
            route=address.route,
            monitor=address.monitor,
            routes=[node.route for node in nodes],
            certificate=folder / CERTIFICATE,
            key=folder / KEY,
            authority=folder / AUTHORITY,
            client_nkey=document["client"],
            system_nkey=document["system"],
            store_key=document["store_key"],
            max_bytes=int(DISK_SHARE * (used + shutil.disk_usage(folder).free)),
        )
    except FileNotFoundError as error:
        raise FleetError(
            f"{path} not found", "Pass the folder of a node: `svc fleet create` makes it."
        ) from error
    except OSError as error:
        raise disk_error(path, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FleetError(
            f"{path} is corrupt", "Copy the node's folder from the fleet's folder again."
        ) from error
    return settings, nodes


def check_addresses(settings: NatsServerSettings) -> None:
    """Raise `FleetError` if the node cannot listen on one of its addresses."""
    for text in (settings.listen, settings.route, settings.monitor):
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, int(port)), family=family).close()
        except OSError as error:
            raise FleetError(
                f"cannot listen on {text}: {error.strerror}",
                "Run the folder of this machine's node, and stop other programs that use the port.",
            ) from error
