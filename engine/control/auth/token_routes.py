"""Routes for API tokens, for example for CI. Users manage their own tokens."""

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.app import require
from engine.control.auth.routes import AuthServices, auth_blueprint
from engine.control.auth.sessions import DAY_NS
from engine.control.errors import NotFound
from engine.control.schemas import accounts as types


def blueprint(services: AuthServices) -> Blueprint:
    """Return the routes. Raises `NotFound` for unknown tokens."""
    routes = auth_blueprint("tokens")
    sessions = services.sessions

    @routes.get("/v1/tokens")
    @validate_response(types.TokenList)
    async def list_tokens() -> types.TokenList:
        """List the caller's tokens, oldest first."""
        held = await sessions.tokens(await services.require_user())
        return types.TokenList(tokens=[types.TokenOut.from_session(token) for token in held])

    @routes.post("/v1/tokens")
    @validate_request(types.TokenRequest)
    @validate_response(types.NewTokenOut)
    async def create_token(data: types.TokenRequest) -> types.NewTokenOut:
        """Create a token. The caller must have at least its role in each of its projects."""
        user = await services.require_user()
        for project in data.projects:
            require(project, data.role)
        shown, token = await sessions.create_token(
            user, data.name, data.role, tuple(dict.fromkeys(data.projects)), data.days * DAY_NS
        )
        return types.NewTokenOut.create(token, shown)

    @routes.delete("/v1/tokens/<token>")
    @validate_response(types.RevokedOut)
    async def remove_token(token: str) -> types.RevokedOut:
        """Revoke one of the caller's tokens by name, immediately."""
        revoked = await sessions.revoke_token(await services.require_user(), token)
        if not revoked:
            raise NotFound(f"token {token[:60]!r} not found", "Run `svc token list` to list your tokens.")
        return types.RevokedOut(revoked=revoked)

    return routes
