"""Routes of the fleet: its state and tokens for owners, and the admission of joining nodes."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from pydantic import Field

from engine.control.access import ALL_PROJECTS, AnyOf
from engine.control.app import Routes, create_app, principal
from engine.control.auth.routes import auth_blueprint
from engine.control.schemas import StrictModel
from engine.fleet.fleet import DrainOut, Fleet
from engine.fleet.members import FindTables, FleetOut
from engine.fleet.node import MAX_PORT, NodeAddress
from engine.fleet.registry import Host, JoinRequest
from engine.http.asgi import asgi_handler
from engine.http.exchange import Handler

HOUR_NS = 3600 * 10**9
Repair = Callable[[str, str, bool], Awaitable[list[str]]]
"""Compares the copies of a project's tables with that of a node, or has all nodes take that one."""


class FoundRequest(StrictModel):
    """The address of the first node, for other nodes."""

    host: Host
    port: int = Field(gt=0, le=MAX_PORT)


class FleetTokenRequest(StrictModel):
    """How long a token can be used, in hours. `keeper`: the machine that joins stores data."""

    hours: int = Field(default=24, gt=0, le=24 * 30)
    keeper: bool = False


class FleetTokenOut(StrictModel):
    """A token for one node, and how many nodes the fleet needs before it serves."""

    token: str
    missing: int


class RepairRequest(StrictModel):
    """The node whose copy of the tables is the right one. Without `commit`, nothing is changed."""

    node: str
    commit: bool = False


class RepairOut(StrictModel):
    """The nodes whose copies differ, or differed, from the chosen one."""

    differing: list[str]


class ReadyOut(StrictModel):
    """Whether this service takes requests of applications."""

    ready: bool


class FleetOfProjectOut(StrictModel):
    """The fleet that serves a project, or null. Addresses are empty unless the caller owns all projects."""

    fleet: FleetOut | None


class DrainRequest(StrictModel):
    """Why a node stops taking requests. `upgrade`: only if all other nodes run and have all data."""

    upgrade: bool = False


class RemovedOut(StrictModel):
    """A node that was removed."""

    id: str
    address: str
    role: str


def blueprint(fleet: Fleet, tables: FindTables, repair: Repair) -> Routes:
    """Return the routes. Those that change the fleet are for owners of every project."""
    routes = Routes("fleet", __name__)

    @routes.get("/v1/fleet", "owner")
    async def status() -> FleetOut:
        """Return the nodes of the fleet as this one observes them."""
        return await fleet.status(tables, "")

    @routes.get("/v1/projects/<project>/fleet", "viewer")
    async def of_project(project: str) -> FleetOfProjectOut:
        """Return the nodes that serve a project. Lags are those of its tables. Requires the role viewer."""
        if fleet.node is None:
            return FleetOfProjectOut(fleet=None)
        status = await fleet.status(tables, project)
        if principal().role(ALL_PROJECTS) != "owner":
            for node in status.nodes:
                node.address = ""
        return FleetOfProjectOut(fleet=status)

    @routes.post("/v1/projects/<project>/fleet/repair", "owner")
    async def repair_tables(project: str, data: RepairRequest) -> RepairOut:
        """Compare the copies of the tables with that of a node, or have all nodes take it."""
        return RepairOut(differing=await repair(project, data.node, data.commit))

    @routes.get("/v1/ready", public=True)
    async def ready() -> tuple[ReadyOut, int]:
        """Return 200 while this service takes requests of applications, 503 once it is drained or stops."""
        is_ready = not fleet.draining.is_set()
        return ReadyOut(ready=is_ready), 200 if is_ready else 503

    @routes.post("/v1/fleet", "owner")
    async def found(data: FoundRequest) -> FleetOut:
        """Create a fleet with this service as its first node."""
        await fleet.found(NodeAddress(data.host, data.port))
        return await fleet.status()

    @routes.post("/v1/fleet/tokens", "owner")
    async def token(data: FleetTokenRequest) -> FleetTokenOut:
        """Create a token that lets one machine join the fleet."""
        created = await fleet.new_token(data.hours * HOUR_NS, keeper=data.keeper)
        state = await fleet.status()
        return FleetTokenOut(token=created.text, missing=max(0, state.needed - len(state.nodes)))

    @routes.post("/v1/fleet/drain", "owner")
    async def drain(data: DrainRequest) -> DrainOut:
        """Stop taking requests on this node, and wait until the last one has ended."""
        if data.upgrade:
            return await fleet.prepare_upgrade(await fleet.status(tables, ""))
        return await fleet.drain()

    @routes.delete("/v1/fleet/nodes/<node>", "owner")
    async def remove(node: str) -> RemovedOut:
        """Remove another node, which does not run."""
        member = await fleet.remove(node)
        return RemovedOut.from_value(member, address=str(member.address))

    return routes


def join_handler(fleet: Fleet) -> Handler:
    """Return the handler of the listener for joining nodes."""
    routes = auth_blueprint("join")

    @routes.get("/v1/join/authority", public=True)
    async def authority() -> dict[str, str]:
        """Return the certificate of the authority, as PEM. A token pins it."""
        return {"certificate": fleet.authority_certificate()}

    @routes.post("/v1/join", public=True)
    async def join(data: JoinRequest) -> dict[str, Any]:
        """Admit a node; a repeated request receives the same admission."""
        return asdict(await fleet.admit(data))

    return asgi_handler(create_app(AnyOf(), [routes]))
