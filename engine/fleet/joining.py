"""A machine joins a fleet over HTTPS: from a token, which pins the authority, to a fleet with enough nodes.

It asks a node of the fleet, which admits it and returns the files of its node.
"""

import asyncio
import http.client
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.bucket.layout import VERSION
from engine.bucket.protocols import BucketError, disk_error
from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.fleet.errors import FleetError, FleetStopped
from engine.fleet.nats_server import find_program
from engine.fleet.node import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    DEFAULT_PORT,
    KEY,
    SEED,
    SYSTEM_SEED,
    FleetNode,
    NodeAddress,
    check_address,
    create_node,
)
from engine.fleet.registry import KEEPERS, JoinRequest, JoinToken, Member
from engine.service.secrets_key import KEY_FILE as SECRETS_FILE

REQUEST_FILE = "fleet.request"
"""File of an interrupted request to join, in the data directory."""
REQUEST_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
POLL_SECONDS = 0.5
SLOW_SECONDS = 10.0
"""After this time of waiting, the log says for what."""
_AGENT_FILES = (AUTHORITY, SEED)
_KEEPER_FILES = (*_AGENT_FILES, AUTHORITY_KEY, SYSTEM_SEED)
"""Files that a node gets from the one that admits it, besides its certificate."""
_T = TypeVar("_T")
Log = Callable[[str, str], None]
"""Takes a level and a line."""


class NodeUnreachable(FleetError):
    """No node of the token answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer to a joining node. `nodes` are those with a nats-server, `complete` once there are enough.

    `files` are certificates and keys, by their names in the folder of the node.
    """

    fleet: str
    node: str
    keeper: bool
    nodes: tuple[NodeAddress, ...]
    members: int
    complete: bool
    client: str
    system: str
    secrets_key: str
    files: Mapping[str, str]

    def encode(self) -> dict[str, Any]:
        """Return the JSON members."""
        return {**asdict(self), "nodes": [[node.host, node.port] for node in self.nodes]}

    @classmethod
    def decode(cls, members: Mapping[str, Any]) -> "Admission":
        """Return the admission of JSON members. Raises `ValueError` and others for invalid ones."""
        nodes = tuple(NodeAddress(str(host), int(port)) for host, port in members["nodes"])
        return cls(**{**members, "nodes": nodes})


# -- the node that admits --------------------------------------------------------------------------------


def admit_member(
    folder: Path, node: FleetNode, member: Member, members: Sequence[Member], request: JoinRequest, key: str
) -> Admission:
    """Return the certificates and keys of a new member. Raises `FleetError`.

    `folder` is that of this node, `members` are all members with the new one, and `request` is its own.
    `key` is that of the secrets.
    """
    from engine.fleet.authority import Authority, KeyPair

    authority = Authority(KeyPair((folder / AUTHORITY).read_bytes(), (folder / AUTHORITY_KEY).read_bytes()))
    try:
        certificate = authority.sign(request.signing_request.encode(), member.id, [member.host])
    except ValueError as error:
        raise FleetError("the signing request of the node is not valid") from error
    keepers = tuple(each.address for each in members if each.keeper)
    files = {name: (folder / name).read_text() for name in (_KEEPER_FILES if member.keeper else _AGENT_FILES)}
    return Admission(
        fleet=node.fleet,
        node=member.id,
        keeper=member.keeper,
        nodes=keepers,
        members=len(members),
        complete=len(keepers) >= KEEPERS,
        client=node.client,
        system=node.system,
        secrets_key=key,
        files={**files, CERTIFICATE: certificate.decode()},
    )


# -- the machine that joins ------------------------------------------------------------------------------


async def join_fleet(
    data: Path, folder: Path, token: JoinToken, listen: NodeAddress | None, version: str
) -> FleetNode:
    """Join the fleet of a token: create the folder of the node, and return it. Raises `SvcError`.

    `data` is the data directory; `listen` the node's address (default: this machine's towards the fleet).
    """
    if (data / VERSION).exists():
        raise FleetError(f"{data} stores another service", "Join with an empty data directory: --data DIR")
    find_program()
    address = listen or NodeAddress(await asyncio.to_thread(_local_host, token), DEFAULT_PORT)
    check_address(address)
    signing_request, key = _signing_request(data / REQUEST_FILE, token)
    admission = await asyncio.to_thread(_join, token, signing_request, address, version)
    node = FleetNode(
        fleet=admission.fleet,
        node=admission.node,
        address=address,
        nodes=admission.nodes,
        client=admission.client,
        system=admission.system,
        keeper=admission.keeper,
        state="joining",
        token=token.text,
        request=signing_request,
    )
    files = {name: admission.files.get(name, "").encode() for name in (*_KEEPER_FILES, CERTIFICATE)}
    try:
        write_atomic(data / SECRETS_FILE, admission.secrets_key.encode(), sync=True)
        create_node(folder, node, {**files, KEY: key.encode()})
        (data / REQUEST_FILE).unlink()
    except OSError as error:
        raise disk_error(data, error) from error
    return node


def _signing_request(path: Path, token: JoinToken) -> tuple[str, str]:
    """Return this machine's request for a token and its key: the same ones after an interruption."""
    from engine.fleet.authority import signing_request

    try:
        with suppress(FileNotFoundError, ValueError, KeyError):
            document = json.loads(path.read_bytes())
            if document["token"] == token.digest:
                return document["request"], document["key"]
        pair = signing_request()
        document = {"token": token.digest, "request": pair.certificate.decode(), "key": pair.key.decode()}
        write_atomic(path, json.dumps(document).encode(), sync=True)
    except OSError as error:
        raise disk_error(path, error) from error
    return document["request"], document["key"]


async def wait_for_nodes(
    node: FleetNode, version: str, log: Log, stop: asyncio.Event
) -> tuple[NodeAddress, ...]:
    """Repeat the request to join until the fleet has enough nodes; return those with a nats-server.

    Raises `SvcError`, and `FleetStopped` when `stop` is set.
    """
    token, shown = JoinToken.parse(node.token), 0

    async def nodes() -> tuple[NodeAddress, ...] | None:
        nonlocal shown
        admission = await asyncio.to_thread(_join, token, node.request, node.address, version)
        if admission.members != shown and not admission.complete:
            shown = admission.members
            joined = f"joined the fleet {node.fleet} as {node.node}: {shown} of {KEEPERS} nodes"
            log("info", f"{joined}; the next one joins with `svc serve --join`")
        return admission.nodes if admission.complete else None

    return await wait_until(nodes, stop, log, "waiting for nodes of the fleet")


async def wait_until(
    find: Callable[[], Awaitable[_T | None]], stop: asyncio.Event, log: Log, waiting: str
) -> _T:
    """Return what `find` finds, which may raise `BucketError` or `NodeUnreachable` before.

    `waiting` says for what, in the log. Raises `FleetStopped` when `stop` is set.
    """
    begin, logged = time.monotonic(), False
    while True:
        reason = ""
        try:
            if found := await find():
                return found
        except (BucketError, NodeUnreachable) as error:
            reason = f": {error.message}"
        if not logged and time.monotonic() - begin > SLOW_SECONDS:
            log("warning", f"{waiting}{reason}")
            logged = True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), POLL_SECONDS)
            raise FleetStopped("the service was stopped while it waited for its fleet")


def _local_host(token: JoinToken) -> str:
    """Return the address of this machine towards the fleet. Blocks. Raises `NodeUnreachable`."""
    for address in token.addresses:
        try:
            at = address.join.host, address.join.port
            with socket.create_connection(at, REQUEST_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failure = error
    raise _unreachable(token, failure)


def _join(token: JoinToken, signing_request: str, listen: NodeAddress, version: str) -> Admission:
    """Ask the nodes of a token in turn for admission. Blocks. Raises `SvcError`."""
    failure: Exception = OSError("no address")
    body = {"secret": token.secret, "signing_request": signing_request, **asdict(listen), "version": version}
    for address in token.addresses:
        try:
            context = ssl.create_default_context(cadata=_authority(address.join, token))
            status, answer = _request(
                address.join, context, "POST", "/v1/join", {**body, "time_ns": time.time_ns()}
            )
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
