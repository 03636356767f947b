"""Tokens for programs, such as CI: each user makes and removes their own. Owns these routes."""

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.app import require
from engine.control.auth.routes import AuthServices, auth_blueprint
from engine.control.auth.sessions import DAY_NS
from engine.control.errors import NotFound
from engine.control.schemas import accounts as types


def blueprint(gate: AuthServices) -> Blueprint:
    """Return the routes."""
    routes = auth_blueprint("tokens")
    sessions = gate.sessions

    @routes.get("/v1/tokens")
    @validate_response(types.TokenList)
    async def list_tokens() -> types.TokenList:
        """List the caller's tokens, the oldest first."""
        held = await sessions.tokens(await gate.require_user())
        return types.TokenList(tokens=[types.TokenOut.from_session(token) for token in held])

    @routes.post("/v1/tokens")
    @validate_request(types.TokenRequest)
    @validate_response(types.NewTokenOut)
    async def create_token(data: types.TokenRequest) -> types.NewTokenOut:
        """Make a token. The caller has at least its role in each of its Projects."""
        user = await gate.require_user()
        for project in data.projects:
            require(project, data.role)
        shown, token = await sessions.create_token(
            user, data.name, data.role, tuple(dict.fromkeys(data.projects)), data.days * DAY_NS
        )
        return types.NewTokenOut.create(token, shown)

    @routes.delete("/v1/tokens/<token>")
    @validate_response(types.EndedOut)
    async def remove_token(token: str) -> types.EndedOut:
        """Remove one of the caller's tokens, by its name; whoever shows it is nobody at once."""
        ended = await sessions.revoke_token(await gate.require_user(), token)
        if not ended:
            raise NotFound(f"you have no token {token[:60]!r}", "`svc token list` lists them.")
        return types.EndedOut(ended=ended)

    return routes
