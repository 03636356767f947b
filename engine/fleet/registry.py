"""Members of a fleet, the tokens of joining nodes, and how a machine joins over HTTPS.

Members and tokens are values of a key-value store: that of the founder's data directory until the fleet
serves, then the cluster. A machine joins with a token, which pins the authority. It asks a node of the fleet,
which admits it and returns the files of its node, until the fleet has enough nodes.
"""

import asyncio
import base64
import hashlib
import json
import re
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from engine.bucket.copy import FLEET_PREFIX
from engine.bucket.layout import VERSION
from engine.bucket.protocols import BucketError, KeyValue, StaleRevision, disk_errors
from engine.control.schemas import StrictModel
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
    MAX_PORT,
    SYSTEM,
    FleetNode,
    NodeAddress,
    check_address,
    create_node,
    node_id,
    own_host,
)
from engine.service.secrets import KEY_FILE as SECRETS_FILE

MEMBERS, TOKENS, SERVES = FLEET_PREFIX + "members/", FLEET_PREFIX + "tokens/", FLEET_PREFIX + "serves"
KEEPERS = 3
"""The first nodes run a nats-server each. Further ones do if their token says so, or are clients."""
MAX_KEEPERS = 5
TOKEN_PREFIX = "svcj1."
MAX_ADDRESSES = 5
MAX_SKEW_NS = 60 * 10**9
_NUMBERS = re.compile(r"[0-9]+")
_NEW_TOKEN = "Create a token with `svc fleet token` on a node of the fleet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node of the fleet. `keeper` says whether it runs a nats-server; `joined_ns` is Unix time."""

    id: str
    host: str
    port: int
    keeper: bool
    version: str
    joined_ns: int = field(default_factory=time.time_ns)

    @property
    def address(self) -> NodeAddress:
        return NodeAddress(self.host, self.port)

    @property
    def role(self) -> str:
        return "keeper" if self.keeper else "agent"


def removed(id_: str) -> FleetError:
    """Return the error of a node that is not a member any more."""
    hint = "Delete its data directory, then join again with another token: svc serve --join TOKEN"
    return FleetError(f"the node {id_} was removed from the fleet", hint)


def _compatible(version: str, other: str) -> bool:
    """Return whether nodes with these versions may serve one fleet: at most one minor version apart."""
    first, second = ([int(part) for part in _NUMBERS.findall(text)[:2]] for text in (version, other))
    return first[:1] == second[:1] and abs(first[1] - second[1]) <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """Lets a machine join. `addresses` are those of nodes that accept it.

    `authority` is the SHA-256 of the certificate of their authority, `secret` has 256 random bits.
    """

    addresses: tuple[NodeAddress, ...]
    authority: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """Return the token of its text form. Raises `FleetError`."""
        try:
            content = text.strip().removeprefix(TOKEN_PREFIX)
            document = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
            addresses = TypeAdapter(tuple[NodeAddress, ...]).validate_python(document["at"])
            token = cls(addresses=addresses, authority=str(document["ca"]), secret=str(document["secret"]))
            if not addresses or not text.strip().startswith(TOKEN_PREFIX):
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            hint = "Copy the whole token that `svc fleet token` printed."
            raise FleetError("the token is not valid", hint) from error
        return token

    @property
    def text(self) -> str:
        """The text form."""
        document = {"at": self.addresses, "ca": self.authority, "secret": self.secret}
        content = json.dumps(document, separators=(",", ":")).encode()
        return TOKEN_PREFIX + base64.urlsafe_b64encode(content).decode().rstrip("=")

    @property
    def digest(self) -> str:
        """SHA-256 of the secret: what the fleet stores."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:%-]{1,253}$")]


class JoinRequest(StrictModel):
    """The request of a joining node. `nonce` is secret; `time_ns` is the Unix time of its clock."""

    secret: str = Field(max_length=200)
    nonce: str = Field(max_length=200)
    host: Host
    port: int = Field(gt=0, le=MAX_PORT)
    version: str = Field(max_length=100)
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredToken:
    """A stored token. `request` is the SHA-256 of the nonce of the request that used it."""

    until_ns: int
    keeper: bool = False
    request: str = ""
    member: Member | None = None


_stored_token = TypeAdapter(_StoredToken).validate_json


class Registry:
    """Reads and changes members and tokens. Methods raise `BucketError` too."""

    def __init__(self, kv: KeyValue, version: str, now_ns: Callable[[], int] = time.time_ns) -> None:
        """`version` is that of this svc, which joining nodes must have."""
        self._kv, self._version, self._now_ns = kv, version, now_ns

    async def members(self) -> list[Member]:
        """Return the members in the order of joining."""
        values = await self._kv.list(MEMBERS)
        members = [Member(**json.loads(value.value)) for value in values]
        return sorted(members, key=lambda member: (member.joined_ns, member.id))

    async def add(self, member: Member) -> None:
        """Add a member; nothing changes if it exists."""
        await self._kv.cas(MEMBERS + member.id, json.dumps(asdict(member)).encode(), None)

    async def remove(self, id_: str) -> None:
        """Remove a member, and the token that would admit it again."""
        for stored in await self._kv.list(TOKENS):
            admitted = _stored_token(stored.value).member
            if admitted is not None and admitted.id == id_:
                await self._kv.cas(stored.key, None, stored.revision)
        value = await self._kv.get(MEMBERS + id_)
        if value is not None:
            await self._kv.cas(value.key, None, value.revision)

    async def check_version(self, id_: str) -> None:
        """Store the version of a member that starts. Raises `FleetError` for one that the others lack.

        Also raises it for a node that was removed.
        """
        value = await self._kv.get(MEMBERS + id_)
        if value is None:
            raise removed(id_)
        for other in await self.members():
            if other.id != id_ and not _compatible(other.version, self._version):
                message = f"this machine has svc {self._version}, the node {other.id} {other.version}"
                raise FleetError(message, "Upgrade all nodes by one minor version at a time.")
        member = replace(Member(**json.loads(value.value)), version=self._version)
        await self._kv.cas(value.key, json.dumps(asdict(member)).encode(), value.revision)

    async def add_token(self, token: JoinToken, lifetime_ns: int, *, keeper: bool = False) -> None:
        """Store a new token, valid from now on. Removes tokens that have expired."""
        now = self._now_ns()
        for value in await self._kv.list(TOKENS):
            if _stored_token(value.value).until_ns < now - lifetime_ns:
                await self._kv.cas(value.key, None, value.revision)
        stored = _StoredToken(until_ns=now + lifetime_ns, keeper=keeper)
        await self._kv.cas(TOKENS + token.digest, json.dumps(asdict(stored)).encode(), None)

    async def admit(self, request: JoinRequest) -> Member:
        """Return the member that a joining node is; a repeated request returns the same one.

        Raises `FleetError` for a token that is forged, expired or used, for another version of svc, for a
        wrong clock, and for the address of another member.
        """
        self._check(request)
        key = TOKENS + hashlib.sha256(request.secret.encode()).hexdigest()
        digest = hashlib.sha256(request.nonce.encode()).hexdigest()
        while True:
            value = await self._kv.get(key)
            if value is None:
                raise FleetError("the token is not one of this fleet", _NEW_TOKEN)
            token = _stored_token(value.value)
            if token.member is None:
                if self._now_ns() >= token.until_ns:
                    raise FleetError("the token has expired", _NEW_TOKEN)
                member = await self._new_member(request, keeper=token.keeper)
                token = replace(token, request=digest, member=member)
                content = json.dumps(asdict(token)).encode()
                if isinstance(await self._kv.cas(key, content, value.revision), StaleRevision):
                    continue
            assert token.member is not None
            if token.request != digest:
                raise FleetError(f"the token was used by the node {token.member.id}", _NEW_TOKEN)
            await self.add(token.member)
            return token.member

    def _check(self, request: JoinRequest) -> None:
        if request.version != self._version:
            hint = f"Install the same version here: pip install 'svc-tui[fleet]=={self._version}'"
            raise FleetError(f"this machine has svc {request.version}, the fleet {self._version}", hint)
        skew = request.time_ns - self._now_ns()
        if abs(skew) > MAX_SKEW_NS:
            state = "ahead of" if skew > 0 else "behind"
            hint = "Synchronize the clocks of all machines, for example with chrony."
            raise FleetError(f"the clock of this machine is {abs(skew) // 10**9} s {state} the fleet's", hint)

    async def _new_member(self, request: JoinRequest, *, keeper: bool) -> Member:
        members = await self.members()
        for member in members:
            if (member.host, member.port) == (request.host, request.port):
                hint = "Pass another address with --fleet-listen."
                raise FleetError(f"{member.address} is the address of the node {member.id}", hint)
        numbers = [int(member.id[1:].partition("-")[0]) for member in members]
        keepers = sum(member.keeper for member in members)
        if keeper and keepers >= MAX_KEEPERS:
            hint = "Remove one with `svc fleet remove`, or create the token without --keeper."
            raise FleetError(f"the fleet has {keepers} keepers, the maximum", hint)
        return Member(
            id=node_id(1 + max(numbers, default=0)),
            host=request.host,
            port=request.port,
            keeper=keeper or keepers < KEEPERS,
            version=request.version,
        )

    async def serves(self) -> bool:
        """Return whether the fleet serves from this store."""
        return await self._kv.get(SERVES) is not None

    async def copy_to(self, target: "Registry") -> None:
        for value in await self._kv.list(FLEET_PREFIX):
            existing = await target._kv.get(value.key)
            await target._kv.cas(value.key, value.value, existing.revision if existing else None)

    async def serve(self) -> None:
        """Mark this store as that from which the fleet serves."""
        await self._kv.cas(SERVES, b"", None)


REQUEST_FILE = "fleet.request"
"""File with the nonce of a request to join, the same after an interruption, in the data directory."""
REQUEST_SECONDS = 10.0
POLL_SECONDS = 0.5
SLOW_SECONDS = 10.0
"""After this time of waiting, the log says for what."""
AGENT_FILES = (AUTHORITY, CLIENT)
KEEPER_FILES = (*AGENT_FILES, AUTHORITY_KEY, SYSTEM)
"""Files that a node gets from the one that admits it, besides its certificate."""
_T = TypeVar("_T")
Log = Callable[[str, str], None]
"""Takes a level and a line."""


class NodeUnreachable(FleetError):
    """No node of the token answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer to a joining `node`. The fleet has so many `members`, `complete` once these are enough.

    `files` are certificates and keys, by their names in the folder of the node.
    """

    node: FleetNode
    members: int
    complete: bool
    secrets_key: str
    files: Mapping[str, str]


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
    with disk_errors(data):
        if not (request := data / REQUEST_FILE).exists():
            write_atomic(request, secrets.token_urlsafe(32).encode(), sync=True)
        nonce = request.read_text()
    admission = await asyncio.to_thread(_join, token, nonce, address, version)
    node = replace(admission.node, token=token.text, nonce=nonce)
    names = (*KEEPER_FILES, CERTIFICATE, KEY)
    with disk_errors(data):
        write_atomic(data / SECRETS_FILE, admission.secrets_key.encode(), sync=True)
        create_node(folder, node, {name: admission.files.get(name, "") for name in names})
        request.unlink()
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
        return admission.node.nodes if admission.complete else None

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
    import httpx

    from engine.certificates.private import fingerprint

    failure: Exception = OSError("no address")
    body = {"secret": token.secret, "nonce": nonce, **listen._asdict(), "version": version}
    options: Any = {"timeout": REQUEST_SECONDS, "trust_env": False}
    for address in token.addresses:
        url = f"https://{address.join}/v1/join"
        try:
            found = httpx.get(f"{url}/authority", verify=False, **options).raise_for_status()
            certificate = str(found.json()["certificate"])
            if fingerprint(certificate) != token.authority:
                hint = "Check the address, and create a token with `svc fleet token`."
                raise FleetError(f"{address.join} is not a node of the fleet of this token", hint)
            context = ssl.create_default_context(cadata=certificate)
            answer = httpx.post(url, json={**body, "time_ns": time.time_ns()}, verify=context, **options)
            document = answer.json()
            if answer.is_success:
                return TypeAdapter(Admission).validate_python(document)
            raise SvcError(document["title"], document.get("hint", ""), code=document.get("code", "fleet"))
        except (OSError, httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            failure = error
    raise _unreachable(token, failure)


def _unreachable(token: JoinToken, failure: Exception) -> NodeUnreachable:
    addresses = ", ".join(str(address.join) for address in token.addresses)
    hint = "Check that svc runs there, and that firewalls allow the ports 4222, 5222 and 6222."
    return NodeUnreachable(f"cannot reach the fleet at {addresses}: {failure}", hint)
