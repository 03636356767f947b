"""Routes for the claim code, login, logout, passwords, API tokens and users.

An owner of every project (`*`) creates and removes users. An owner of one project assigns roles in it and
sees its users. Users manage their own tokens. Times are ISO 8601 in UTC. `roles` maps projects to roles; `*`
stands for every project.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, StringConstraints
from quart import request

from engine.control.access import ALL_PROJECTS, Forbidden, Role
from engine.control.app import Routes, principal, require
from engine.control.auth.accounts import MAX_LENGTH, MAX_ROLES, MIN_LENGTH, AccountConflict, Accounts, User
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.sessions import DAY_NS, SECOND_NS, TOKEN_NAME_PATTERN, Session, Sessions
from engine.control.errors import NotFound
from engine.control.schemas import QueryModel, StrictModel
from engine.errors import SvcError
from engine.http.connection_limits import client_key
from engine.manifest.schema import NAME_LENGTH, NAME_PATTERN
from engine.timeline.record import utc

MAX_BODY_BYTES = 64 << 10
BODY_TIMEOUT_SECONDS = 15.0
LOG_IN_HINT = "Log in with a user name and password (`svc login URL`) and unset SVC_TOKEN if set."
"""Hint for requests that API tokens may not make."""


SCOPE_PATTERN = rf"^(\*|{NAME_PATTERN[1:-1]})$"
MAX_TOKEN_DAYS = 365

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE_PATTERN, max_length=NAME_LENGTH)]
TokenName = Annotated[str, StringConstraints(pattern=TOKEN_NAME_PATTERN)]
Password = Annotated[str, StringConstraints(max_length=MAX_LENGTH)]
NewPassword = Annotated[str, StringConstraints(min_length=MIN_LENGTH, max_length=MAX_LENGTH)]
Roles = Annotated[dict[Scope, Role], Field(max_length=MAX_ROLES)]


class ClaimCheck(StrictModel):
    """The claim code of a service."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class ClaimRequest(ClaimCheck):
    """The claim code, and the first owner's credentials."""

    user: Name
    password: NewPassword


class ClaimOut(StrictModel):
    """Whether the service has an owner."""

    claimed: bool


class LoginRequest(StrictModel):
    """A user name and a password."""

    user: Name
    password: Password


class SessionOut(StrictModel):
    """A new session. `token` is only returned here."""

    token: str
    user: str
    roles: dict[str, Role]
    expires: str


class WhoamiOut(StrictModel):
    """The caller. `token` is the name of the API token in use; `expires` is when the credentials expire."""

    user: str
    token: str | None
    roles: dict[str, Role]
    expires: str | None


class RevokedOut(StrictModel):
    """How many sessions or tokens were revoked, or users removed."""

    revoked: int


class PasswordRequest(StrictModel):
    """The current and the new password."""

    old: Password
    new: NewPassword


class TokenRequest(StrictModel):
    """A new API token: its role, projects and lifetime in days."""

    name: TokenName
    role: Role
    projects: Annotated[list[Scope], Field(min_length=1, max_length=MAX_ROLES)]
    days: Annotated[int, Field(ge=1, le=MAX_TOKEN_DAYS)] = 90


class TokenOut(StrictModel):
    """An API token, without its secret. `used` is its latest use, to the hour."""

    name: str
    role: Role
    projects: list[str]
    created: str
    expires: str
    used: str | None


class NewTokenOut(TokenOut):
    """A new API token. `token` is only returned here."""

    token: str


class TokenList(StrictModel):
    """The caller's API tokens."""

    tokens: list[TokenOut]


class UserOut(StrictModel):
    """A user and their roles, as far as the caller may see them."""

    name: str
    roles: dict[str, Role]
    created: str


class UserList(StrictModel):
    """Users, sorted by name."""

    users: list[UserOut]


class UserRequest(StrictModel):
    """A new user with roles, or a new password of an existing user."""

    password: NewPassword
    roles: Roles = Field({})


class RoleRequest(StrictModel):
    """A role."""

    role: Role


@dataclass(frozen=True, slots=True)
class AuthServices:
    """Dependencies shared by the account routes."""

    accounts: Accounts
    sessions: Sessions
    throttle: LoginThrottle

    async def session(self) -> Session | None:
        """Return the caller's session or token; `None` if another authenticator accepted the caller."""
        return await self.sessions.find(_token())

    async def log_in(self, address: str, name: str, password: str) -> User:
        """Return the user with this password. Raises `Unauthenticated` and `TooManyAttempts`."""
        with self.throttle.attempt(address, name):
            return await self.accounts.authenticate(name, password)

    async def require_user(self) -> User:
        """Return the caller's account. Raises `Forbidden` unless the caller uses a login session."""
        session = await self.session()
        user = await self.accounts.find(session.user) if session else None
        if session is None or user is None or session.kind != "session":
            raise Forbidden(f"{principal().name} does not use a login session", LOG_IN_HINT)
        return user


class LogoutQuery(QueryModel):
    """`everywhere` ends all sessions of the user instead of the current one."""

    everywhere: bool = False


def auth_blueprint(name: str) -> Routes:
    """Return a blueprint with small, timely request bodies. For others, requests raise `SvcError`."""
    routes = Routes(name, __name__)

    @routes.before_request
    async def _receive_body() -> None:
        size = request.content_length or 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                if size <= MAX_BODY_BYTES:
                    size = len(await request.get_data(as_text=False))
        except TimeoutError as error:
            raise SvcError("the request did not come in time", "Send it again.", code="slow") from error
        if size > MAX_BODY_BYTES:
            raise SvcError(f"the request body exceeds {MAX_BODY_BYTES} bytes", code="body-too-large")

    return routes


def blueprint(services: AuthServices) -> Routes:
    """Return the routes."""
    routes = auth_blueprint("login")
    accounts, sessions, throttle = services.accounts, services.sessions, services.throttle

    @routes.get("/v1/claim", public=True)
    async def claimed() -> ClaimOut:
        """Return whether the service has an owner."""
        return ClaimOut(claimed=await accounts.claimed())

    @routes.post("/v1/claim", public=True)
    async def claim(data: ClaimRequest) -> SessionOut:
        """Create the first owner, with the claim code that the service printed at its start."""
        with throttle.attempt(_client_key()):
            user = await accounts.claim(data.code, data.user, data.password)
        return await _opened(user)

    @routes.post("/v1/claim/check", public=True)
    async def check_claim(data: ClaimCheck) -> ClaimOut:
        """Check a claim code, before a name and a password are entered."""
        with throttle.attempt(_client_key()):
            await accounts.check_claim(data.code)
        return ClaimOut(claimed=False)

    @routes.post("/v1/login", public=True)
    async def login(data: LoginRequest) -> SessionOut:
        """Create a session."""
        return await _opened(await services.log_in(_client_key(), data.user, data.password))

    @routes.post("/v1/logout")
    async def logout(query_args: LogoutQuery) -> RevokedOut:
        """Revoke the current session or token, or all sessions of the user."""
        if query_args.everywhere:
            return RevokedOut(revoked=await sessions.revoke_sessions(await services.require_user()))
        exists = await services.session() is not None
        await sessions.revoke(_token())
        return RevokedOut(revoked=int(exists))

    @routes.get("/v1/whoami")
    async def whoami() -> WhoamiOut:
        """Return the caller and their roles."""
        session, asking = await services.session(), principal()
        return WhoamiOut(
            user=session.user if session else asking.name,
            token=session.name if session and session.kind == "token" else None,
            roles=dict(asking.roles),
            expires=utc(session.expires_ns // SECOND_NS) if session else None,
        )

    @routes.post("/v1/password")
    async def password(data: PasswordRequest) -> RevokedOut:
        """Change the caller's password and end all their other sessions."""
        user = await services.require_user()
        await services.log_in(_client_key(), user.name, data.old)
        changed = await accounts.set_password(user.name, data.new)
        await sessions.renew(_token(), changed)
        return RevokedOut(revoked=await sessions.remove_invalidated(changed))

    async def _opened(user: User) -> SessionOut:
        token, session = await sessions.create_session(user)
        return SessionOut.from_value(session, token=token, roles=user.roles)

    return routes


def _client_key() -> str:
    return client_key(request.remote_addr or "")


def _token() -> str:
    return request.headers.get("authorization", "").partition(" ")[2].strip()


def user_blueprint(services: AuthServices) -> Routes:
    """Return the routes. They raise `AccountConflict`, `Forbidden` and `NotFound`."""
    routes = auth_blueprint("users")
    accounts, sessions = services.accounts, services.sessions

    @routes.get("/v1/users")
    async def list_users() -> UserList:
        """List the users with a role in the caller's projects; an owner of every project sees all users."""
        owned = _owned()
        visible = [_visible(user, owned) for user in await accounts.users()]
        return UserList(users=[user for user in visible if user.roles or owned is None])

    @routes.put("/v1/users/<user>", "owner")
    async def put_user(user: str, data: UserRequest) -> UserOut:
        """Create a user, or set an existing user's password, which ends their sessions."""
        await _person_or_local()
        if await accounts.find(user) is None:
            return UserOut.from_value(await accounts.add(user, data.password, data.roles))
        if data.roles:
            raise AccountConflict(f"the user {user} already exists", "Omit the roles to change the password.")
        changed = await accounts.set_password(user, data.password)
        await sessions.remove_invalidated(changed)
        return UserOut.from_value(changed)

    @routes.delete("/v1/users/<user>", "owner")
    async def remove_user(user: str) -> RevokedOut:
        """Remove a user and end their sessions and tokens. One owner of every project must remain."""
        await _person_or_local()
        await accounts.remove(user)
        return RevokedOut(revoked=1)

    @routes.put("/v1/users/<user>/roles/<scope>")
    async def put_role(user: str, scope: str, data: RoleRequest) -> UserOut:
        """Set a user's role in a project, or in every project (`*`)."""
        return await _set_role(user, scope, data.role)

    @routes.delete("/v1/users/<user>/roles/<scope>")
    async def remove_role(user: str, scope: str) -> UserOut:
        """Remove a user's role in a project."""
        return await _set_role(user, scope, None)

    async def _set_role(user: str, scope: str, role: Role | None) -> UserOut:
        require(scope, "owner")
        await _person_or_local()
        return _visible(await accounts.set_role(user, scope, role), _owned())

    @routes.get("/v1/tokens")
    async def list_tokens() -> TokenList:
        """List the caller's tokens, oldest first."""
        listed = await sessions.tokens(await services.require_user())
        return TokenList(tokens=[TokenOut.from_value(token) for token in listed])

    @routes.post("/v1/tokens")
    async def create_token(data: TokenRequest) -> NewTokenOut:
        """Create a token. The caller must have at least its role in each of its projects."""
        user = await services.require_user()
        for project in data.projects:
            require(project, data.role)
        secret, token = await sessions.create_token(
            user, data.name, data.role, tuple(dict.fromkeys(data.projects)), data.days * DAY_NS
        )
        return NewTokenOut.from_value(token, token=secret)

    @routes.delete("/v1/tokens/<token>")
    async def remove_token(token: str) -> RevokedOut:
        """Revoke one of the caller's tokens by name, immediately."""
        revoked = await sessions.revoke_token(await services.require_user(), token)
        if not revoked:
            raise NotFound(f"token {token[:60]!r} not found", "Run `svc token list` to list your tokens.")
        return RevokedOut(revoked=revoked)

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


def _visible(user: User, owned: set[str] | None) -> UserOut:
    roles = {key: role for key, role in user.roles.items() if owned is None or key in owned}
    return UserOut.from_value(replace(user, roles=roles))
