"""Tokens for programs, such as CI: each user makes and removes their own. Owns these routes."""

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.app import require
from engine.control.auth.routes import Gate, guarded
from engine.control.auth.sessions import DAY_NS
from engine.control.errors import NotFound
from engine.control.schemas import accounts as types


def blueprint(gate: Gate) -> Blueprint:
    """Return the routes."""
    routes = guarded("tokens")
    sessions = gate.sessions

    @routes.get("/v1/tokens")
    @validate_response(types.Tokens)
    async def list_tokens() -> types.Tokens:
        """List the caller's tokens, the oldest first."""
        held = await sessions.tokens(await gate.person())
        return types.Tokens(tokens=[types.TokenShown.of(token) for token in held])

    @routes.post("/v1/tokens")
    @validate_request(types.TokenWish)
    @validate_response(types.NewToken)
    async def create_token(data: types.TokenWish) -> types.NewToken:
        """Make a token. The caller has at least its role in each of its Projects."""
        user = await gate.person()
        for project in data.projects:
            require(project, data.role)
        shown, token = await sessions.create(
            user, data.name, data.role, tuple(dict.fromkeys(data.projects)), data.days * DAY_NS
        )
        return types.NewToken.made(token, shown)

    @routes.delete("/v1/tokens/<token>")
    @validate_response(types.Ended)
    async def remove_token(token: str) -> types.Ended:
        """Remove one of the caller's tokens, by its name; whoever shows it is nobody at once."""
        ended = await sessions.end_token(await gate.person(), token)
        if not ended:
            raise NotFound(f"you have no token {token[:60]!r}", "`svc token list` lists them.")
        return types.Ended(ended=ended)

    return routes
