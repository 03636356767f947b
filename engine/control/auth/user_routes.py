"""Users and their roles, for owners. Owns these routes.

An owner of every Project (`*`) makes and removes users. An owner of one Project gives roles in it,
and sees who has one.
"""

from dataclasses import replace

from quart import Blueprint
from quart_schema import validate_request, validate_response

from engine.control.access import ALL_PROJECTS, Forbidden, Role
from engine.control.app import principal, require
from engine.control.auth.accounts import AccountConflict
from engine.control.auth.routes import LOG_IN_HINT, AuthServices, auth_blueprint
from engine.control.schemas import accounts as types


def blueprint(gate: AuthServices) -> Blueprint:
    """Return the routes."""
    routes = auth_blueprint("users")
    accounts, sessions = gate.accounts, gate.sessions

    @routes.get("/v1/users")
    @validate_response(types.UserList)
    async def list_users() -> types.UserList:
        """List the users with a role in what the caller owns; an owner of every Project sees all."""
        owned = _owned()
        shown = []
        for user in await accounts.users():
            roles = {key: role for key, role in user.roles.items() if owned is None or key in owned}
            if roles or owned is None:
                shown.append(types.UserOut.from_user(replace(user, roles=roles)))
        return types.UserList(users=shown)

    @routes.put("/v1/users/<user>")
    @validate_request(types.UserRequest)
    @validate_response(types.UserOut)
    async def put_user(user: str, data: types.UserRequest) -> types.UserOut:
        """Make a user; or give one who is there another password, which ends their sessions."""
        require(ALL_PROJECTS, "owner")
        await _person_or_local()
        if await accounts.find(user) is None:
            return types.UserOut.from_user(await accounts.add(user, data.password, data.roles))
        if data.roles:
            raise AccountConflict(
                f"there is a user {user} already", "Leave the roles out to change the password."
            )
        changed = await accounts.set_password(user, data.password)
        await sessions.remove_invalidated(changed)
        return types.UserOut.from_user(changed)

    @routes.delete("/v1/users/<user>")
    @validate_response(types.EndedOut)
    async def remove_user(user: str) -> types.EndedOut:
        """Remove a user; their sessions and tokens end at once. One owner of every Project has to remain."""
        require(ALL_PROJECTS, "owner")
        await _person_or_local()
        await accounts.remove(user)
        return types.EndedOut(ended=1)

    @routes.put("/v1/users/<user>/roles/<scope>")
    @validate_request(types.RoleRequest)
    @validate_response(types.UserOut)
    async def put_role(user: str, scope: str, data: types.RoleRequest) -> types.UserOut:
        """Give a user a role in a Project, or (`*`) in every one."""
        return await _set_role(user, scope, data.role)

    @routes.delete("/v1/users/<user>/roles/<scope>")
    @validate_response(types.UserOut)
    async def remove_role(user: str, scope: str) -> types.UserOut:
        """Take a user's role in a Project."""
        return await _set_role(user, scope, None)

    async def _set_role(user: str, scope: str, role: Role | None) -> types.UserOut:
        require(scope, "owner")
        await _person_or_local()
        changed = await accounts.set_role(user, scope, role)
        owned = _owned()
        roles = {key: has for key, has in changed.roles.items() if owned is None or key in owned}
        return types.UserOut.from_user(replace(changed, roles=roles))

    async def _person_or_local() -> None:
        """Keep tokens for programs from what outlives them."""
        session = await gate.session()
        if session is not None and session.kind == "token":
            raise Forbidden("a token can not change users", LOG_IN_HINT)

    return routes


def _owned() -> set[str] | None:
    """Return the Projects that the caller owns, `None` for all. Raises `Forbidden` where there is none."""
    asking = principal()
    if asking.role(ALL_PROJECTS) == "owner":
        return None
    owned = {project for project, role in asking.roles.items() if role == "owner"}
    if not owned:
        raise Forbidden(f"{asking.name} owns no Project", "Owners see users.")
    return owned
