"""Routes for the claim code, login, logout, the current user and password changes."""

import asyncio
from dataclasses import dataclass

from quart import Blueprint, request
from quart_schema import validate_querystring, validate_request, validate_response

from engine.control.access import Forbidden
from engine.control.app import principal, public_route
from engine.control.auth.accounts import Accounts, User
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.sessions import Session, Sessions
from engine.control.errors import BodyTooLarge
from engine.control.schema import QueryModel
from engine.control.schemas import accounts as types
from engine.errors import SvcError
from engine.http.connection_limits import client_key

MAX_BODY_BYTES = 64 << 10
BODY_TIMEOUT_SECONDS = 15.0


LOG_IN_HINT = "Log in with a user name and password (`svc login URL`) and unset SVC_TOKEN if set."
"""Hint for requests that API tokens may not make."""


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
            raise Forbidden(
                f"{principal().name} does not use a login session",
                LOG_IN_HINT,
            )
        return user


class LogoutQuery(QueryModel):
    """`everywhere` ends all sessions of the user instead of the current one."""

    everywhere: bool = False


def auth_blueprint(name: str) -> Blueprint:
    """Return a blueprint with small, timely request bodies.

    Its requests raise `BodyTooLarge`, and `SvcError` when the body does not arrive in time.
    """
    routes = Blueprint(name, __name__)

    @routes.before_request
    async def _receive_body() -> None:
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise BodyTooLarge(MAX_BODY_BYTES)
        try:
            async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
                size = len(await request.get_data(as_text=False))
        except TimeoutError as error:
            raise SvcError("the request did not come in time", "Send it again.", code="slow") from error
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(MAX_BODY_BYTES)

    return routes


def blueprint(services: AuthServices) -> Blueprint:
    """Return the routes."""
    routes = auth_blueprint("login")
    accounts, sessions, throttle = services.accounts, services.sessions, services.throttle

    @routes.get("/v1/claim")
    @public_route
    @validate_response(types.ClaimOut)
    async def claimed() -> types.ClaimOut:
        """Return whether the service has an owner."""
        return types.ClaimOut(claimed=await accounts.claimed())

    @routes.post("/v1/claim")
    @public_route
    @validate_request(types.ClaimRequest)
    @validate_response(types.SessionOut)
    async def claim(data: types.ClaimRequest) -> types.SessionOut:
        """Create the first owner, with the claim code that the service printed at its start."""
        with throttle.attempt(_client_key()):
            user = await accounts.claim(data.code, data.user, data.password)
        return await _opened(user)

    @routes.post("/v1/claim/check")
    @public_route
    @validate_request(types.ClaimCheck)
    @validate_response(types.ClaimOut)
    async def check_claim(data: types.ClaimCheck) -> types.ClaimOut:
        """Check a claim code, before a name and a password are entered."""
        with throttle.attempt(_client_key()):
            await accounts.check_claim(data.code)
        return types.ClaimOut(claimed=False)

    @routes.post("/v1/login")
    @public_route
    @validate_request(types.LoginRequest)
    @validate_response(types.SessionOut)
    async def login(data: types.LoginRequest) -> types.SessionOut:
        """Create a session."""
        return await _opened(await services.log_in(_client_key(), data.user, data.password))

    @routes.post("/v1/logout")
    @validate_querystring(LogoutQuery)
    @validate_response(types.RevokedOut)
    async def logout(query_args: LogoutQuery) -> types.RevokedOut:
        """Revoke the current session or token, or all sessions of the user."""
        if query_args.everywhere:
            return types.RevokedOut(revoked=await sessions.revoke_sessions(await services.require_user()))
        exists = await services.session() is not None
        await sessions.revoke(_token())
        return types.RevokedOut(revoked=int(exists))

    @routes.get("/v1/whoami")
    @validate_response(types.WhoamiOut)
    async def whoami() -> types.WhoamiOut:
        """Return the caller and their roles."""
        session, asking = await services.session(), principal()
        return types.WhoamiOut(
            user=session.user if session else asking.name,
            token=session.name if session and session.kind == "token" else None,
            roles=dict(asking.roles),
            expires=types.iso(session.expires_ns) if session else None,
        )

    @routes.post("/v1/password")
    @validate_request(types.PasswordRequest)
    @validate_response(types.RevokedOut)
    async def password(data: types.PasswordRequest) -> types.RevokedOut:
        """Change the caller's password and end all their other sessions."""
        user = await services.require_user()
        await services.log_in(_client_key(), user.name, data.old)
        changed = await accounts.set_password(user.name, data.new)
        await sessions.renew(_token(), changed)
        return types.RevokedOut(revoked=await sessions.remove_invalidated(changed))

    async def _opened(user: User) -> types.SessionOut:
        token, session = await sessions.create_session(user)
        return types.SessionOut(
            token=token, user=user.name, roles=dict(user.roles), expires=types.iso(session.expires_ns)
        )

    return routes


def _client_key() -> str:
    return client_key(request.remote_addr or "")


def _token() -> str:
    return request.headers.get("authorization", "").partition(" ")[2].strip()
