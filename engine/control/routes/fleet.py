"""Routes of the fleet: its state and tokens for owners, and the admission of joining nodes."""

from typing import Any

from pydantic import Field
from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS, Principal
from engine.control.app import create_app, public_route, require
from engine.control.auth.routes import auth_blueprint
from engine.control.schema import StrictModel
from engine.fleet.fleet import Fleet
from engine.fleet.node import MAX_PORT, NodeAddress
from engine.fleet.registry import JoinRequest
from engine.fleet.status import FleetStatus
from engine.http.asgi import asgi_handler
from engine.http.exchange import Handler

HOUR_NS = 3600 * 10**9
TOKEN_HOURS = 24
MAX_TOKEN_HOURS = 24 * 30


class FoundRequest(StrictModel):
    """The address of the first node, for other nodes."""

    host: str = Field(min_length=1, max_length=253)
    port: int = Field(gt=0, le=MAX_PORT)


class FleetTokenRequest(StrictModel):
    """How long a token can be used, in hours."""

    hours: int = Field(default=TOKEN_HOURS, gt=0, le=MAX_TOKEN_HOURS)


class FleetTokenOut(StrictModel):
    """A token for one node, and how many nodes the fleet needs before it serves."""

    token: str
    missing: int


class NodeOut(StrictModel):
    """A node. `role`: keeper (runs a nats-server) or agent. `skew_seconds`: its clock minus this one's."""

    id: str
    address: str
    role: str
    version: str
    present: bool
    this: bool
    skew_seconds: float | None


class FleetOut(StrictModel):
    """The fleet. `healthy`: this node's nats-server is in contact with a majority."""

    fleet: str
    node: str
    serving: bool
    healthy: bool
    needed: int
    nodes: list[NodeOut]


class AuthorityOut(StrictModel):
    """The certificate of the authority, as PEM."""

    certificate: str


class JoinBody(StrictModel):
    """The request of a joining node."""

    secret: str = Field(max_length=200)
    signing_request: str = Field(max_length=4000)
    host: str = Field(min_length=1, max_length=253)
    port: int = Field(gt=0, le=MAX_PORT)
    version: str = Field(max_length=100)
    time_ns: int


def blueprint(fleet: Fleet) -> Blueprint:
    """Return the routes for owners of every project."""
    routes = Blueprint("fleet", __name__)

    @routes.get("/v1/fleet")
    @validate_response(FleetOut)
    async def status() -> FleetOut:
        """Return the nodes of the fleet as this one observes them."""
        require(ALL_PROJECTS, "owner")
        return _status(await fleet.status())

    @routes.post("/v1/fleet")
    @validate_request(FoundRequest)
    @validate_response(FleetOut)
    async def found(data: FoundRequest) -> FleetOut:
        """Create a fleet with this service as its first node."""
        require(ALL_PROJECTS, "owner")
        await fleet.found(NodeAddress(data.host, data.port))
        return _status(await fleet.status())

    @routes.post("/v1/fleet/tokens")
    @validate_request(FleetTokenRequest)
    @validate_response(FleetTokenOut)
    async def token(data: FleetTokenRequest) -> FleetTokenOut:
        """Create a token that lets one machine join the fleet."""
        require(ALL_PROJECTS, "owner")
        created = await fleet.new_token(data.hours * HOUR_NS)
        state = await fleet.status()
        return FleetTokenOut(token=created.text, missing=max(0, state.needed - len(state.members)))

    return routes


def _status(status: FleetStatus) -> FleetOut:
    return FleetOut(
        fleet=status.fleet,
        node=status.node,
        serving=status.serving,
        healthy=status.healthy,
        needed=status.needed,
        nodes=[
            NodeOut(
                id=node.member.id,
                address=str(node.member.address),
                role="keeper" if node.member.keeper else "agent",
                version=node.version,
                present=node.present,
                this=node.this,
                skew_seconds=node.skew_seconds,
            )
            for node in status.members
        ],
    )


class _NoAccess:
    """An authenticator without principals: joining nodes have a token in their request."""

    async def principal(self, token: str) -> Principal | None:
        """Return `None`."""
        return None


def join_handler(fleet: Fleet) -> Handler:
    """Return the handler of the listener for joining nodes."""
    routes = auth_blueprint("join")

    @routes.get("/v1/join/authority")
    @public_route
    @validate_response(AuthorityOut)
    async def authority() -> AuthorityOut:
        """Return the certificate of the authority. A token pins it."""
        return AuthorityOut(certificate=fleet.authority_certificate())

    @routes.post("/v1/join")
    @public_route
    @validate_request(JoinBody)
    async def join(data: JoinBody) -> dict[str, Any]:
        """Admit a node; a repeated request receives the same admission."""
        return (await fleet.admit(JoinRequest(**data.model_dump()))).encode()

    return asgi_handler(create_app(_NoAccess(), [routes]))
