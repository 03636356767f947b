"""A service's part in a fleet: founding, joining, its nats-server, and the move from the folder to the fleet.

A fleet is founded by a service with a data directory, which continues to serve from it. When the third node
has joined, all start their nats-servers. Then the founder stops serving, and copies its storage. Its state
`member`, stored after the copy, decides: before that the founder serves its folder at the next start, after
that the fleet.
"""

import asyncio
import json
import logging
import secrets
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.bucket.copy import CopyReport
from engine.bucket.layout import mark_moved
from engine.bucket.protocols import Bucket, BucketError, disk_errors
from engine.cancellation import cancel, spawn
from engine.control.auth.login_throttle import LoginEvent, LoginThrottle
from engine.control.schemas import StrictModel
from engine.errors import SvcError
from engine.fleet.bucket import NAMESPACE, JetStreamBucket
from engine.fleet.connection import NatsConnection, Patience, error_code
from engine.fleet.errors import FleetError, WorkersRefused
from engine.fleet.members import FindTables, FleetOut, Presence, Tables, check_membership, observe
from engine.fleet.nats_server import NatsServer, find_program
from engine.fleet.node import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    KEY,
    NODE_FOLDER,
    STORE,
    SYSTEM,
    UPLOADS,
    FleetNode,
    NodeAddress,
    check_address,
    cluster_address,
    find_node,
    found_node,
)
from engine.fleet.registry import (
    AGENT_FILES,
    KEEPER_FILES,
    KEEPERS,
    MAX_ADDRESSES,
    MEMBERS,
    Admission,
    JoinRequest,
    JoinToken,
    Log,
    Member,
    Registry,
    join_fleet,
    wait_for_nodes,
    wait_until,
)
from engine.http.exchange import Handler
from engine.http.server import serve
from engine.http.sockets import bind
from engine.http.tls import Certificate
from engine.service.secrets import SecretsKey

RETRY_SECONDS = 2.0
_REPEAT = "run `svc fleet start` to copy it"
READY_SECONDS = 60.0
READ_SECONDS = 3.0
PORTS_SECONDS = 15.0
WAIT_SECONDS = 4.0
"""How long an operation waits for a heartbeat of another node."""
COPIES = 3
CURRENT_SECONDS = 120.0
"""How long a new copy may take."""
POLL_SECONDS = 0.2
_NOT_A_MEMBER = 10044
_IN_PROGRESS = 10202
"""Error code while another server joins or is removed."""
_STATUS = "Look at the nodes with `svc fleet status`."
_START_OTHERS = (
    "Start the services of the other keepers, and wait until `svc fleet status` shows them as present."
)
_log = logging.getLogger("svc.fleet")


class DrainOut(StrictModel):
    """A node that takes no requests, and how many streams other nodes lead instead of it."""

    node: str
    streams: int


class Fleet:
    """This service's node. Use on one event loop."""

    def __init__(
        self, data: Path, version: str, log: Log, handler: Callable[["Fleet"], Handler], processes: int = 1
    ) -> None:
        """`handler` returns that of joining nodes; `processes` serve requests."""
        self.processes = processes
        self._data, self.folder = data, data / NODE_FOLDER
        self._version, self._log, self._handler = version, log, handler
        self.node = find_node(data)
        self.presence: Presence | None = None
        self._starting = True
        self._members: list[Member] = []
        self._server: NatsServer | None = None
        self._bucket: Bucket | None = None
        self.complete = asyncio.Event()
        """Set once the fleet is to get the data of this service, which is to stop for `move`."""
        self.draining = asyncio.Event()
        self.drained = asyncio.Event()
        """To be set when the last request has ended."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._admitting = asyncio.Lock()
        self._forming = False

    # -- start and stop ----------------------------------------------------------------------------------

    async def open(self, stop: asyncio.Event) -> JetStreamBucket | None:
        """Return the bucket of the fleet once it serves; `None` while this service uses its folder.

        Waits for other nodes, until `stop` is set. Raises `SvcError`.
        """
        if self.node is None or self.node.state == "founding":
            return None
        if self.node.state == "joining":
            nodes = await wait_for_nodes(self.node, self._version, self._log, stop)
            self.node = self.node.save(self.folder, nodes=nodes)
        else:
            await check_membership(self.folder, self.node, NAMESPACE)
        are_free = partial(self._ports_are_free, time.monotonic() + PORTS_SECONDS)
        await wait_until(are_free, stop, lambda level, line: None, "")
        await self._start_server()
        majority = "waiting for a majority of the fleet's nodes"
        bucket = await wait_until(self._open_cluster, stop, self._log, majority)
        try:
            await self._enter(Registry(bucket.fleet, self._version), stop)
        except BaseException:
            await bucket.aclose()
            raise
        self._bucket = bucket
        self.presence = Presence(bucket.connection, bucket.namespace, self.require_node().node)
        beats = self.presence.run(
            lambda: {"version": self._version, "starting": self._starting, "draining": self.draining.is_set()}
        )
        self._spawn(beats, "heartbeats")
        return bucket

    async def _enter(self, registry: Registry, stop: asyncio.Event) -> None:
        """Become a member, or check that this node may still be one. Raises `SvcError`."""
        node = self.require_node()
        if node.state == "joining":
            await wait_until(registry.serves, stop, self._log, "waiting for the first node's data")
            self.node = node.save(self.folder, state="member", token="")
            self._log("info", f"the node {node.node} serves the fleet {node.fleet}")
            return
        await registry.check_version(node.node)
        if not await registry.serves():  # This is the first node, and the fleet has its data.
            mark_moved(self._data, f"the fleet {node.fleet}")
            await registry.serve()

    async def start(self, bucket: Bucket, check: Callable[[], Awaitable[None]]) -> None:
        """Serve as a node with this bucket, and accept joining nodes.

        `check` raises `SvcError` if a fleet could not replicate the data of this service.
        """
        self._bucket, self._check = bucket, check
        if self.node is None:
            return
        if isinstance(bucket, JetStreamBucket):
            self._spawn(self._follow_members(bucket), "members of the fleet")
            self._starting = False
        elif len(await self._keepers()) >= KEEPERS:
            self._log("warning", f"the fleet {self.node.fleet} lacks the data of this service; {_REPEAT}")
        if self.node.keeper:
            self._listen(bind(self.node.address.join.host, self.node.address.join.port))

    async def stop(self) -> None:
        """Stop accepting nodes and following the fleet. The bucket stays open."""
        await cancel(self._tasks)

    async def stop_server(self) -> None:
        """Stop the nats-server, after the bucket was closed."""
        if self._server is not None:
            await self._server.stop()

    def _spawn(self, work: Awaitable[None], name: str) -> None:
        async def run() -> None:
            try:
                await work
            except SvcError as error:
                self._log("error", error.text)
            except Exception:
                _log.exception("%s failed", name)

        spawn(self._tasks, run())

    def _listen(self, sockets: list[socket.socket]) -> None:
        certificate = Certificate(self.folder / CERTIFICATE, self.folder / KEY)
        serving = serve(
            self._handler(self), sockets, stop=asyncio.Event(), grace=1, tls=certificate.load().context()
        )
        self._spawn(serving, "join listener")

    async def _ports_are_free(self, end: float) -> bool:
        """Return whether the nats-server of the former process has ended. Raises `FleetError` after `end`."""
        node = self.require_node()
        try:
            if node.keeper:
                check_address(node.address)
        except FleetError as error:
            if time.monotonic() < end:
                return False
            hint = f"Stop it. A copy of {self._data} cannot run beside it."
            raise FleetError(f"another process uses {node.address}: {error.message}", hint) from error
        return True

    async def _start_server(self) -> None:
        node = self.require_node()
        if node.keeper and self._server is None:
            self._server = NatsServer(self.folder, node, self._log)
            await self._server.start()

    async def _connect(self, *, create: bool = True) -> JetStreamBucket:
        address = cluster_address(self.folder, self.require_node())
        return await JetStreamBucket.open(address, NAMESPACE, self.folder / UPLOADS, create=create)

    async def _open_cluster(self) -> JetStreamBucket | None:
        """Open the bucket of the fleet, which other nodes may still create."""
        # Otherwise this service would use the server of another node, which could not stop at once.
        starts = self._server is not None and not self._server.listening
        return None if starts else await self._connect(create=False)

    async def _follow_members(self, bucket: JetStreamBucket) -> None:
        """Store the keepers, which change when nodes join or are removed."""
        async for _ in bucket.fleet.watch(MEMBERS, 0):
            keepers = await self._keepers()
            nodes, ids = tuple(each.address for each in keepers), tuple(each.id for each in keepers)
            node = self.require_node()
            if len(keepers) >= KEEPERS and (nodes, ids) != (node.nodes, node.keepers):
                self.node = node.save(self.folder, nodes=nodes, keepers=ids)

    @property
    def cluster(self) -> JetStreamBucket:
        """The bucket of the fleet. Raises `FleetError` before the fleet serves."""
        self.require_node()
        if not isinstance(self._bucket, JetStreamBucket):
            hint = f"It needs {KEEPERS} nodes: svc fleet status shows them."
            raise FleetError("the fleet does not serve yet", hint)
        return self._bucket

    def require_node(self) -> FleetNode:
        """Return this node. Raises `FleetError` if this service is not part of a fleet."""
        if self.node is None:
            raise FleetError("this service is not part of a fleet", "Create one with `svc fleet start`.")
        return self.node

    def registry(self) -> Registry:
        """Return the members and tokens in the store that the service uses."""
        assert self._bucket is not None
        kv = self._bucket.fleet if isinstance(self._bucket, JetStreamBucket) else self._bucket.kv
        return Registry(kv, self._version)

    # -- founding and admission --------------------------------------------------------------------------

    async def found(self, address: NodeAddress) -> None:
        """Create a fleet with this service as its first node. Raises `SvcError`.

        Repeated, it retains the address, and copies the data again if enough nodes have joined.
        """
        if self.node is None or self.node.state == "founding":
            await self._check()
        if self.node is None:
            if self.processes > 1:
                raise WorkersRefused(self.processes)
            find_program()
            check_address(address)
            sockets = bind(address.join.host, address.join.port)
            self.node = found_node(self.folder, address)
            self._listen(sockets)
        elif self.node.state != "founding":
            message = f"this service is the node {self.node.node} of the fleet {self.node.fleet}"
            raise FleetError(message, "Run `svc fleet token` to add a node.")
        node = self.node
        member = Member(id=node.node, **node.address._asdict(), version=self._version, keeper=True)
        await self.registry().add(member)
        await self._form_when_complete()

    async def new_token(self, lifetime_ns: int, *, keeper: bool = False) -> JoinToken:
        """Return a new token for one node, a `keeper` if so. Raises `SvcError`."""
        node = self.require_node()
        if not node.keeper:
            hint = f"Run this on the machine of another node: {node.nodes[0].host}"
            raise FleetError(f"the node {node.node} cannot admit nodes", hint)
        others = [address for address in node.nodes if address != node.address]
        addresses = (node.address, *others)[:MAX_ADDRESSES]
        token = JoinToken(addresses=addresses, authority=self._fingerprint())
        await self.registry().add_token(token, lifetime_ns, keeper=keeper)
        return token

    def _fingerprint(self) -> str:
        from engine.certificates.private import fingerprint

        return fingerprint(self.authority_certificate())

    def authority_certificate(self) -> str:
        return (self.folder / AUTHORITY).read_text()

    async def admit(self, request: JoinRequest) -> Admission:
        """Admit a node, or return what it received. Raises `FleetError`, and as `Registry.admit` does."""
        from engine.certificates.private import Issuer

        node, folder = self.require_node(), self.folder
        async with self._admitting:
            before = await self.registry().members()
            member = await self.registry().admit(request)
            members = await self.registry().members()
        authority = Issuer(Certificate(folder / AUTHORITY, folder / AUTHORITY_KEY).load())
        pair = authority.issue(member.id, member.host)
        names = KEEPER_FILES if member.keeper else AGENT_FILES
        keepers = tuple(each.address for each in members if each.keeper)
        admission = Admission(
            node=FleetNode(
                fleet=node.fleet,
                node=member.id,
                address=member.address,
                nodes=keepers,
                keeper=member.keeper,
                state="joining",
            ),
            members=len(members),
            complete=len(keepers) >= KEEPERS,
            secrets_key=SecretsKey.open(self._data).text,
            files={name: (folder / name).read_text() for name in names}
            | {CERTIFICATE: pair.chain, KEY: pair.key},
        )
        if len(members) > len(before):
            await self._form_when_complete()
        return admission

    async def join(self, text: str, listen: NodeAddress | None) -> None:
        """Join the fleet of a token, unless this node is part of it. Raises `SvcError`."""
        token = JoinToken.parse(text)
        if self.node is None:
            self.node = await join_fleet(self._data, self.folder, token, listen, self._version)
        elif self._fingerprint() != token.authority:
            message = f"{self._data} belongs to the fleet {self.node.fleet}, which is not that of the token"
            raise FleetError(message, "Pass another --data, or omit --join.")

    async def _keepers(self) -> list[Member]:
        return [member for member in await self.registry().members() if member.keeper]

    async def _form_when_complete(self) -> None:
        node, keepers = self.require_node(), await self._keepers()
        if node.state == "founding" and len(keepers) >= KEEPERS and not self._forming:
            self._forming = True
            self.node = node.save(self.folder, nodes=tuple(each.address for each in keepers))
            self._spawn(self._form(), "start of the fleet")

    async def _form(self) -> None:
        """Start the fleet's storage, while this service serves; repeat after failures. Set `complete`."""
        while True:
            try:
                await self._start_server()
                assert self._server is not None
                await self._server.ready(READY_SECONDS)
                await (await self._connect()).aclose()
                break
            except SvcError as error:
                self._log("warning", f"the fleet cannot start yet; svc tries again: {error}")
                await asyncio.sleep(RETRY_SECONDS)
        self._log("info", "the fleet has enough nodes: this service stops serving while its data is copied")
        self.complete.set()

    async def move(self, copy: Callable[[JetStreamBucket], Awaitable[CopyReport]]) -> CopyReport:
        """Copy the storage of this service, which has stopped, to the fleet. Return what `copy` does.

        After a `SvcError` nothing has changed.
        """
        async with aclosing(await self._connect()) as target:
            report = await copy(target)
            await self.registry().copy_to(Registry(target.fleet, self._version))
            self.node = self.require_node().save(self.folder, state="member")
        return report

    async def status(self, find: FindTables | None = None, project: str = "") -> FleetOut:
        """Return the state of all members as this node observes it, and of tables. Raises `SvcError`."""
        node = self.require_node()
        try:
            async with asyncio.timeout(READ_SECONDS if self._members else None):
                self._members = await self.registry().members()
        except (BucketError, TimeoutError):  # Without a majority, the members are those of the last call.
            if not self._members:
                raise
        tables = await find([each.id for each in self._members], project) if find is not None else Tables()
        return FleetOut(
            fleet=node.fleet,
            node=node.node,
            serving=node.state == "member",
            healthy=self._server is None or await self._server.healthy(),
            quorum=bool(tables.leader),
            needed=KEEPERS,
            nodes=[observe(member, node.node, self.presence, tables) for member in self._members],
        )

    # -- a fleet that serves -------------------------------------------------------------------------------

    async def drain(self) -> DrainOut:
        """Stop taking requests, wait for the last one to end, and let other nodes lead. Raises `SvcError`."""
        node, bucket = self.require_node(), self.cluster
        await self._present()
        self.draining.set()
        await self.drained.wait()
        led = [each.name for each in await stream_copies(bucket.connection) if each.leader == node.node]
        for name in led:
            await bucket.connection.api(f"STREAM.LEADER.STEPDOWN.{name}", {})
        return DrainOut(node=node.node, streams=len(led))

    async def prepare_upgrade(self, status: FleetOut) -> DrainOut:
        """Drain this node for an upgrade, unless the others cannot do without it. Raises `SvcError`."""
        node = self.require_node()
        present = await self._present()
        members = await self.registry().members()
        if away := [member.id for member in members if member.id not in present]:
            raise FleetError(f"{away[0]} is away: upgrade one node at a time, while all others run", _STATUS)
        if busy := [each.id for each in status.nodes if each.draining and not each.this]:
            raise FleetError(f"{busy[0]} is drained", "Start its service again first.")
        late = behind(await stream_copies(self.cluster.connection), [each.id for each in members])
        if late or not status.healthy:
            raise FleetError(f"{(late or [node.node])[0]} lacks the last writes", "Wait until it has them.")
        for id_, copy in [(each.id, copy) for each in status.nodes for copy in each.copies]:
            raise FleetError(
                f"the tables of {copy.project} on {id_} are not up to date: {copy.problem}",
                f"Wait until they are. If they stay so: svc fleet repair {copy.project} --from NODE",
            )
        return await self.drain()

    async def remove(self, id_: str) -> Member:
        """Remove a node that does not run, and return it. Raises `SvcError`.

        A keeper is removed once another one can store its data.
        """
        node, present = self.require_node(), await self._present()
        members = {member.id: member for member in await self.registry().members()}
        if id_ not in members:
            raise FleetError(f"the fleet has no node {id_}", f"Its nodes are: {', '.join(sorted(members))}")
        member = members[id_]
        if id_ in present:
            hint = "Run `svc fleet drain` on its machine and stop the service there. Then repeat this."
            raise FleetError(f"the node {id_} is running", hint)
        if member.keeper:
            if not node.keeper:
                hint = "Run this on the machine of a keeper."
                raise FleetError(f"the node {node.node} cannot remove a keeper", hint)
            await self._remove_keeper(member, {each.id for each in members.values() if each.keeper} & present)
        await self.registry().remove(id_)
        return member

    async def _remove_keeper(self, member: Member, keepers: set[str]) -> None:
        if len(keepers) < COPIES:
            raise FleetError(
                f"without the keeper {member.id}, {len(keepers)} keepers run: another failure would stop all"
                " changes",
                "Add a keeper first: `svc fleet token --keeper`, and `SVC_JOIN=TOKEN svc serve` on its"
                " machine.",
            )
        connection = self.cluster.connection
        if late := behind(await stream_copies(connection), keepers):
            raise FleetError(f"the keeper {late[0]} lacks the last writes", "Wait until it has them.")
        address = cluster_address(self.folder, self.require_node(), SYSTEM)
        patience = Patience("the removal of a node", CURRENT_SECONDS)
        async with aclosing(await NatsConnection.open(address)) as system:
            # After a lost answer the server is not a member any more.
            allowed = (_NOT_A_MEMBER, _IN_PROGRESS)
            removal = partial(system.api, "SERVER.REMOVE", {"peer": member.id}, allowed=allowed)
            while error_code(await removal()) == _IN_PROGRESS:
                await patience.pause()
        end = time.monotonic() + CURRENT_SECONDS
        while missing := [
            each.name for each in await stream_copies(connection) if len(each.current - {member.id}) < COPIES
        ]:
            if time.monotonic() > end:
                message = f"{missing[0]} has fewer than {COPIES} copies after {CURRENT_SECONDS:g} s"
                raise FleetError(message, "Look at the nodes with `svc fleet status`; the copies continue.")
            await asyncio.sleep(POLL_SECONDS)

    async def _present(self) -> set[str]:
        """Return the nodes that run, as this one observes them.

        Raises `FleetError` before the fleet serves, and if no other node is present within `WAIT_SECONDS`:
        the first heartbeats arrive soon after the start.
        """
        assert self.cluster
        node = self.require_node().node
        end = time.monotonic() + WAIT_SECONDS
        while self.presence is not None and time.monotonic() < end:
            if (present := self.presence.present()) - {node}:
                return present
            await asyncio.sleep(POLL_SECONDS)
        raise FleetError(
            f"{node} is the last node that runs: nothing can be changed without a majority of the keepers",
            "Start the services of other nodes first.",
        )


async def share_attempts(connection: NatsConnection, namespace: str, throttle: LoginThrottle) -> None:
    """Count login attempts of other nodes, and send them those of this one, until the connection closes."""
    subject, sender = f"svc-logins.{namespace}", secrets.token_hex(8)
    sending: set[asyncio.Task[None]] = set()

    async def receive(message: Any) -> None:
        document = json.loads(message.data)
        if document.pop("sender") != sender:
            throttle.apply(LoginEvent(**document))

    async def send(event: LoginEvent) -> None:
        with suppress(BucketError):  # Without the others, this node counts alone.
            await connection.publish(subject, json.dumps({**asdict(event), "sender": sender}).encode())

    await connection.subscribe(subject, receive)
    throttle.announce = lambda event: spawn(sending, send(event))


async def discard_copies(folder: Path, node: FleetNode) -> None:
    """Delete the store of a keeper that does not run. Raises `SvcError` unless the others have all data."""
    if node.state != "member":
        raise FleetError(f"the fleet of {folder} does not serve yet", "Start the service first.")
    others = tuple(f"tls://{address}" for address in node.nodes if address != node.address)
    try:
        address = replace(cluster_address(folder, node), servers=others)
        async with aclosing(await NatsConnection.open(address)) as connection:
            copies = await stream_copies(connection)
    except BucketError as error:
        raise FleetError(f"the other keepers do not answer: {error.message}", _START_OTHERS) from error
    for each in copies:
        if len(each.current - {node.node}) < COPIES - 1:
            raise FleetError(f"{each.name} has no two current copies on other keepers", _START_OTHERS)
    store = folder / STORE
    with disk_errors(store):
        await asyncio.to_thread(shutil.rmtree, store, ignore_errors=not store.exists())


@dataclass(frozen=True, slots=True)
class StreamCopies:
    """One stream: its leader, and the servers with a current copy, the leader among them."""

    name: str
    leader: str
    current: frozenset[str]
    servers: frozenset[str]


async def stream_copies(connection: NatsConnection) -> list[StreamCopies]:
    """Return the copies of all streams. Raises `BucketError`."""
    listed = await connection.api("STREAM.NAMES", {})
    copies = []
    for name in listed.get("streams") or ():
        answer = await connection.api(f"STREAM.INFO.{name}", {})
        cluster = answer["cluster"]
        leader, others = cluster.get("leader", ""), cluster.get("replicas") or ()
        present = {each["name"] for each in others if each.get("current") and not each.get("offline")}
        servers = frozenset({leader, *(each["name"] for each in others)} - {""})
        copies.append(StreamCopies(name, leader, frozenset({leader} - {""} | present), servers))
    return copies


def behind(copies: Sequence[StreamCopies], keepers: Collection[str]) -> list[str]:
    """Return the keepers that lack a current copy of a stream that they store."""
    return sorted({keeper for each in copies for keeper in each.servers - each.current if keeper in keepers})
