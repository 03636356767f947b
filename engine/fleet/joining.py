"""A machine joins a fleet over HTTPS: from a token, which pins the authority, to a fleet with enough nodes.

It asks a node of the fleet, which admits it and returns the files of its node.
"""

import asyncio
import http.client
import json
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

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
    CLIENT,
    KEY,
    SYSTEM,
    FleetNode,
    NodeAddress,
    check_address,
    create_node,
    own_host,
)
from engine.fleet.registry import KEEPERS, JoinToken, Member
from engine.service.secrets_key import KEY_FILE as SECRETS_FILE

REQUEST_FILE = "fleet.request"
"""File with the nonce of a request to join, the same after an interruption, in the data directory."""
REQUEST_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
POLL_SECONDS = 0.5
SLOW_SECONDS = 10.0
"""After this time of waiting, the log says for what."""
_AGENT_FILES = (AUTHORITY, CLIENT)
_KEEPER_FILES = (*_AGENT_FILES, AUTHORITY_KEY, SYSTEM)
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
    secrets_key: str
    files: Mapping[str, str]


# -- the node that admits --------------------------------------------------------------------------------


def admit_member(
    folder: Path, node: FleetNode, member: Member, members: Sequence[Member], key: str
) -> Admission:
    """Return the certificates and keys of a new member.

    `folder` is that of this node, `members` are all members with the new one. `key` is that of the secrets.
    """
    from engine.fleet.authority import Authority, KeyPair

    authority = Authority(KeyPair((folder / AUTHORITY).read_bytes(), (folder / AUTHORITY_KEY).read_bytes()))
    pair = authority.issue(member.id, member.host)
    keepers = tuple(each.address for each in members if each.keeper)
    files = {name: (folder / name).read_text() for name in (_KEEPER_FILES if member.keeper else _AGENT_FILES)}
    return Admission(
        fleet=node.fleet,
        node=member.id,
        keeper=member.keeper,
        nodes=keepers,
        members=len(members),
        complete=len(keepers) >= KEEPERS,
        secrets_key=key,
        files={**files, CERTIFICATE: pair.certificate.decode(), KEY: pair.key.decode()},
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
    try:
        address = listen or NodeAddress(await asyncio.to_thread(own_host, token.addresses[0]))
    except OSError as error:
        raise _unreachable(token, error) from error
    check_address(address)
    try:
        if not (request := data / REQUEST_FILE).exists():
            write_atomic(request, secrets.token_urlsafe(32).encode(), sync=True)
        nonce = request.read_text()
    except OSError as error:
        raise disk_error(data, error) from error
    admission = await asyncio.to_thread(_join, token, nonce, address, version)
    node = FleetNode(
        fleet=admission.fleet,
        node=admission.node,
        address=address,
        nodes=admission.nodes,
        keeper=admission.keeper,
        state="joining",
        token=token.text,
        nonce=nonce,
    )
    names = (*_KEEPER_FILES, CERTIFICATE, KEY)
    try:
        write_atomic(data / SECRETS_FILE, admission.secrets_key.encode(), sync=True)
        create_node(folder, node, {name: admission.files.get(name, "").encode() for name in names})
        request.unlink()
    except OSError as error:
        raise disk_error(data, error) from error
    return node


async def wait_for_nodes(
    node: FleetNode, version: str, log: Log, stop: asyncio.Event
) -> tuple[NodeAddress, ...]:
    """Repeat the request to join until the fleet has enough nodes; return those with a nats-server.

    Raises `SvcError`, and `FleetStopped` when `stop` is set.
    """
    token, shown = JoinToken.parse(node.token), 0

    async def nodes() -> tuple[NodeAddress, ...] | None:
        nonlocal shown
        admission = await asyncio.to_thread(_join, token, node.nonce, node.address, version)
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


def _join(token: JoinToken, nonce: str, listen: NodeAddress, version: str) -> Admission:
    """Ask the nodes of a token in turn for admission. Blocks. Raises `SvcError`."""
    failure: Exception = OSError("no address")
    body = {"secret": token.secret, "nonce": nonce, **listen._asdict(), "version": version}
    for address in token.addresses:
        try:
            context = ssl.create_default_context(cadata=_authority(address.join, token))
            status, answer = _request(
                address.join, context, "POST", "/v1/join", {**body, "time_ns": time.time_ns()}
            )
            document = json.loads(answer)
            if status == http.client.OK:
                return TypeAdapter(Admission).validate_python(document)
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
