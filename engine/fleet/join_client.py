"""The client side of joining: HTTPS to a node of the fleet, whose authority the token pins."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import SvcError
from engine.fleet.errors import FleetError
from engine.fleet.node import NodeAddress
from engine.fleet.registry import JoinRequest
from engine.fleet.token import JoinToken

REQUEST_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20


class NodeUnreachable(FleetError):
    """No node of the token answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer to a joining node. `nodes` are those with a nats-server, `complete` once there are enough.

    Certificates and keys are PEM; `seed` is the nkey of clients.
    `authority_key` and `system_seed` are empty for agents.
    """

    fleet: str
    node: str
    keeper: bool
    nodes: tuple[NodeAddress, ...]
    members: int
    complete: bool
    certificate: str
    authority: str
    authority_key: str
    seed: str
    client: str
    system: str
    system_seed: str
    secrets_key: str

    def encode(self) -> dict[str, Any]:
        """Return the JSON members."""
        return {**asdict(self), "nodes": [[node.host, node.port] for node in self.nodes]}

    @classmethod
    def decode(cls, members: Mapping[str, Any]) -> "Admission":
        """Return the admission of JSON members. Raises `ValueError` and others for invalid ones."""
        nodes = tuple(NodeAddress(str(host), int(port)) for host, port in members["nodes"])
        return cls(**{**members, "nodes": nodes})


def local_host(token: JoinToken) -> str:
    """Return the address of this machine towards the fleet. Blocks. Raises `NodeUnreachable`."""
    for address in token.addresses:
        try:
            with socket.create_connection(
                (address.join.host, address.join.port), REQUEST_SECONDS
            ) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failure = error
    raise _unreachable(token, failure)


def join(token: JoinToken, request: JoinRequest) -> Admission:
    """Ask the nodes of a token in turn for admission. Blocks. Raises `FleetError` and `NodeUnreachable`."""
    failure: Exception = OSError("no address")
    for address in token.addresses:
        try:
            context = ssl.create_default_context(cadata=_authority(address.join, token))
            status, answer = _request(address.join, context, "POST", "/v1/join", asdict(request))
            document = json.loads(answer)
            if status == http.client.OK:
                return Admission.decode(document)
            raise SvcError(document["title"], document.get("hint", ""), code=document.get("code", "fleet"))
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            failure = error
    raise _unreachable(token, failure)


def _authority(address: NodeAddress, token: JoinToken) -> str:
    """Return the certificate of the authority (PEM), which the token pins."""
    from engine.fleet.authority import fingerprint

    unverified = ssl._create_unverified_context()
    status, answer = _request(address, unverified, "GET", "/v1/join/authority")
    if status != http.client.OK:
        raise ValueError(f"status {status}")
    certificate = str(json.loads(answer)["certificate"])
    if fingerprint(certificate.encode()) != token.authority:
        raise FleetError(
            f"{address} is not a node of the fleet of this token",
            "Check the address, and create a token with `svc fleet token`.",
        )
    return certificate


def _request(
    address: NodeAddress, context: ssl.SSLContext, method: str, path: str, body: Any = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection(
        address.host, address.port, timeout=REQUEST_SECONDS, context=context
    )
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(MAX_ANSWER_BYTES)
    finally:
        connection.close()


def _unreachable(token: JoinToken, failure: Exception) -> NodeUnreachable:
    addresses = ", ".join(str(address.join) for address in token.addresses)
    return NodeUnreachable(
        f"cannot reach the fleet at {addresses}: {failure}",
        "Check that svc runs there, and that firewalls allow the ports 4222, 5222 and 6222.",
    )
