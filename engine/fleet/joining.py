"""A machine joins a fleet: from a token to the files of its node, and to a fleet with enough nodes."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.bucket.errors import disk_error
from engine.bucket.layout import VERSION
from engine.files.atomic import write_atomic
from engine.fleet.errors import FleetError, FleetStopped
from engine.fleet.join_client import NodeUnreachable, join, local_host
from engine.fleet.key_pair import KeyPair
from engine.fleet.nats_server import find_program
from engine.fleet.node import DEFAULT_PORT, FleetNode, NodeAddress, NodeKeys, check_address, create_node
from engine.fleet.registry import KEEPERS, JoinRequest
from engine.fleet.token import JoinToken
from engine.service.secrets_key import KEY_FILE as SECRETS_FILE

REQUEST_FILE = "fleet.request"
"""File of an interrupted request to join, in the data directory."""
POLL_SECONDS = 0.5


async def join_fleet(
    data: Path, folder: Path, token: JoinToken, listen: NodeAddress | None, version: str
) -> FleetNode:
    """Join the fleet of a token: create the folder of the node, and return it. Raises `SvcError`.

    `data` is the data directory; `listen` the node's address (default: this machine's towards the fleet).
    """
    if (data / VERSION).exists():
        raise FleetError(f"{data} stores another service", "Join with an empty data directory: --data DIR")
    find_program()
    address = listen or NodeAddress(await asyncio.to_thread(local_host, token), DEFAULT_PORT)
    check_address(address)
    pair = _signing_request(data / REQUEST_FILE, token)
    request = _join_request(token, pair.certificate.decode(), address, version)
    admission = await asyncio.to_thread(join, token, request)
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
        request=request.signing_request,
    )
    authority = KeyPair(admission.authority.encode(), admission.authority_key.encode())
    certified = KeyPair(admission.certificate.encode(), pair.key)
    try:
        write_atomic(data / SECRETS_FILE, admission.secrets_key.encode(), sync=True)
        create_node(folder, node, NodeKeys(authority, certified, admission.seed, admission.system_seed))
        (data / REQUEST_FILE).unlink()
    except OSError as error:
        raise disk_error(data, error) from error
    return node


def _signing_request(path: Path, token: JoinToken) -> KeyPair:
    """Return this machine's request for a token: the same one after an interruption."""
    from engine.fleet.authority import signing_request

    try:
        with suppress(FileNotFoundError, ValueError, KeyError):
            document = json.loads(path.read_bytes())
            if document["token"] == token.digest:
                return KeyPair(document["request"].encode(), document["key"].encode())
        pair = signing_request()
        document = {"token": token.digest, "request": pair.certificate.decode(), "key": pair.key.decode()}
        write_atomic(path, json.dumps(document).encode(), sync=True)
    except OSError as error:
        raise disk_error(path, error) from error
    return pair


def _join_request(token: JoinToken, signing_request: str, address: NodeAddress, version: str) -> JoinRequest:
    return JoinRequest(
        secret=token.secret,
        signing_request=signing_request,
        host=address.host,
        port=address.port,
        version=version,
        time_ns=time.time_ns(),
    )


async def wait_for_nodes(
    node: FleetNode, version: str, log: Callable[[str, str], None], stop: asyncio.Event
) -> tuple[NodeAddress, ...]:
    """Repeat the request to join until the fleet has enough nodes; return those with a nats-server.

    `log` takes a level and a line. Raises `SvcError`, and `FleetStopped` when `stop` is set.
    """
    token = JoinToken.parse(node.token)
    shown = 0
    while True:
        try:
            request = _join_request(token, node.request, node.address, version)
            admission = await asyncio.to_thread(join, token, request)
        except NodeUnreachable as error:
            log("warning", error.message)
        else:
            if admission.complete:
                return admission.nodes
            if admission.members != shown:
                shown = admission.members
                log(
                    "info",
                    f"joined the fleet {node.fleet} as {node.node}: {shown} of {KEEPERS} nodes; the next one"
                    " joins with `svc serve --join`",
                )
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), POLL_SECONDS)
            raise FleetStopped
