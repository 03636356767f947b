"""Routes for users, their roles and their API tokens, for example for CI.

An owner of every project (`*`) creates and removes users. An owner of one project assigns roles in it and
sees its users. Users manage their own tokens.
"""

from dataclasses import replace

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS, Forbidden, Role
from engine.control.app import principal, require
from engine.control.auth.accounts import AccountConflict, User
from engine.control.auth.routes import LOG_IN_HINT, AuthServices, auth_blueprint
from engine.control.auth.sessions import DAY_NS
from engine.control.errors import NotFound
from engine.control.schemas import accounts as types


def blueprint(services: AuthServices) -> Blueprint:
    """Return the routes. They raise `AccountConflict`, `Forbidden` and `NotFound`."""
    routes = auth_blueprint("users")
    accounts, sessions = services.accounts, services.sessions

    @routes.get("/v1/users")
    @validate_response(types.UserList)
    async def list_users() -> types.UserList:
        """List the users with a role in the caller's projects; an owner of every project sees all users."""
        owned = _owned()
        visible = [_visible(user, owned) for user in await accounts.users()]
        return types.UserList(users=[user for user in visible if user.roles or owned is None])

    @routes.put("/v1/users/<user>")
    @validate_request(types.UserRequest)
    @validate_response(types.UserOut)
    async def put_user(user: str, data: types.UserRequest) -> types.UserOut:
        """Create a user, or set an existing user's password, which ends their sessions."""
        require(ALL_PROJECTS, "owner")
        await _person_or_local()
        if await accounts.find(user) is None:
            return types.UserOut.from_user(await accounts.add(user, data.password, data.roles))
        if data.roles:
            raise AccountConflict(f"the user {user} already exists", "Omit the roles to change the password.")
        changed = await accounts.set_password(user, data.password)
        await sessions.remove_invalidated(changed)
        return types.UserOut.from_user(changed)

    @routes.delete("/v1/users/<user>")
    @validate_response(types.RevokedOut)
    async def remove_user(user: str) -> types.RevokedOut:
        """Remove a user and end their sessions and tokens. One owner of every project must remain."""
        require(ALL_PROJECTS, "owner")
        await _person_or_local()
        await accounts.remove(user)
        return types.RevokedOut(revoked=1)

    @routes.put("/v1/users/<user>/roles/<scope>")
    @validate_request(types.RoleRequest)
    @validate_response(types.UserOut)
    async def put_role(user: str, scope: str, data: types.RoleRequest) -> types.UserOut:
        """Set a user's role in a project, or in every project (`*`)."""
        return await _set_role(user, scope, data.role)

    @routes.delete("/v1/users/<user>/roles/<scope>")
    @validate_response(types.UserOut)
    async def remove_role(user: str, scope: str) -> types.UserOut:
        """Remove a user's role in a project."""
        return await _set_role(user, scope, None)

    async def _set_role(user: str, scope: str, role: Role | None) -> types.UserOut:
        require(scope, "owner")
        await _person_or_local()
        return _visible(await accounts.set_role(user, scope, role), _owned())

    @routes.get("/v1/tokens")
    @validate_response(types.TokenList)
    async def list_tokens() -> types.TokenList:
        """List the caller's tokens, oldest first."""
        listed = await sessions.tokens(await services.require_user())
        return types.TokenList(tokens=[types.TokenOut.from_session(token) for token in listed])

    @routes.post("/v1/tokens")
    @validate_request(types.TokenRequest)
    @validate_response(types.NewTokenOut)
    async def create_token(data: types.TokenRequest) -> types.NewTokenOut:
        """Create a token. The caller must have at least its role in each of its projects."""
        user = await services.require_user()
        for project in data.projects:
            require(project, data.role)
        secret, token = await sessions.create_token(
            user, data.name, data.role, tuple(dict.fromkeys(data.projects)), data.days * DAY_NS
        )
        return types.NewTokenOut.create(token, secret)

    @routes.delete("/v1/tokens/<token>")
    @validate_response(types.RevokedOut)
    async def remove_token(token: str) -> types.RevokedOut:
        """Revoke one of the caller's tokens by name, immediately."""
        revoked = await sessions.revoke_token(await services.require_user(), token)
        if not revoked:
            raise NotFound(f"token {token[:60]!r} not found", "Run `svc token list` to list your tokens.")
        return types.RevokedOut(revoked=revoked)

    async def _person_or_local() -> None:
        """Raise `Forbidden` for API tokens, because the change would outlive the token."""
        session = await services.session()
        if session is not None and session.kind == "token":
            raise Forbidden("API tokens cannot change users", LOG_IN_HINT)

    return routes


def _owned() -> set[str] | None:
    """Return the projects that the caller owns, `None` for all. Raises `Forbidden` without any."""
    asking = principal()
    if asking.role(ALL_PROJECTS) == "owner":
        return None
    owned = {project for project, role in asking.roles.items() if role == "owner"}
    if not owned:
        raise Forbidden(f"{asking.name} does not own a project", "Ask an owner to list the users.")
    return owned


def _visible(user: User, owned: set[str] | None) -> types.UserOut:
    roles = {key: role for key, role in user.roles.items() if owned is None or key in owned}
    return types.UserOut.from_user(replace(user, roles=roles))
