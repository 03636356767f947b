"""Coming in: the first owner's claim, login and logout, who one is, another password.

Owns these routes, and what each route about accounts does first (`guarded`, `person`).
"""

import asyncio
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from quart import Blueprint, request
from quart_schema import validate_querystring, validate_request, validate_response

from engine.control.access import Forbidden
from engine.control.app import principal, public_route
from engine.control.auth.accounts import Accounts, User
from engine.control.auth.login_throttle import LoginThrottle
from engine.control.auth.sessions import Session, Sessions
from engine.control.errors import BodyTooLarge
from engine.control.schemas import accounts as types
from engine.errors import SvcError

MAX_BODY_BYTES = 64 << 10
BODY_TIMEOUT_SECONDS = 15.0


LOG_IN_HINT = "Log in with a user name and a password, `svc login URL`, and unset SVC_TOKEN if it is set."
"""What to do for what a token may not."""


@dataclass(frozen=True, slots=True)
class AuthServices:
    """What the routes about accounts share."""

    accounts: Accounts
    sessions: Sessions
    throttle: LoginThrottle

    async def session(self) -> Session | None:
        """Return the session or token that is shown; `None` for whom another authority let in."""
        return await self.sessions.find(_shown())

    async def require_user(self) -> User:
        """Return the user who asks, by a session of their own. Raises `Forbidden`."""
        session = await self.session()
        user = await self.accounts.find(session.user) if session else None
        if session is None or user is None or session.kind != "session":
            raise Forbidden(
                f"{principal().name} is no user of this service with a session",
                LOG_IN_HINT,
            )
        return user


class LogoutQuery(BaseModel):
    """Whether all sessions of the user end, not the one alone that is shown."""

    model_config = ConfigDict(extra="forbid")
    everywhere: bool = False


def auth_blueprint(name: str) -> Blueprint:
    """Return a blueprint whose requests are small and come in time."""
    routes = Blueprint(name, __name__)

    @routes.before_request
    async def _whole() -> None:
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


def blueprint(gate: AuthServices) -> Blueprint:
    """Return the routes."""
    routes = auth_blueprint("login")
    accounts, sessions, attempts = gate.accounts, gate.sessions, gate.throttle

    @routes.get("/v1/claim")
    @public_route
    @validate_response(types.ClaimOut)
    async def claimed() -> types.ClaimOut:
        """Say whether the service has an owner."""
        return types.ClaimOut(claimed=await accounts.claimed())

    @routes.post("/v1/claim")
    @public_route
    @validate_request(types.ClaimRequest)
    @validate_response(types.SessionOut)
    async def claim(data: types.ClaimRequest) -> types.SessionOut:
        """Make the first owner, by the code that the service printed when it started."""
        attempts.start_attempt(_address())
        user = await accounts.claim(data.code, data.user, data.password)
        attempts.record_success(_address())
        return await _opened(user)

    @routes.post("/v1/login")
    @public_route
    @validate_request(types.LoginRequest)
    @validate_response(types.SessionOut)
    async def login(data: types.LoginRequest) -> types.SessionOut:
        """Begin a session."""
        user = await _checked(data.user, data.password)
        return await _opened(user)

    @routes.post("/v1/logout")
    @validate_querystring(LogoutQuery)
    @validate_response(types.EndedOut)
    async def logout(query_args: LogoutQuery) -> types.EndedOut:
        """End what is shown, a session or a token; or all sessions of the user, everywhere."""
        if query_args.everywhere:
            return types.EndedOut(ended=await sessions.revoke_sessions(await gate.require_user()))
        known = await gate.session() is not None
        await sessions.revoke(_shown())
        return types.EndedOut(ended=int(known))

    @routes.get("/v1/whoami")
    @validate_response(types.WhoamiOut)
    async def whoami() -> types.WhoamiOut:
        """Say who asks, and what they may do."""
        session, asking = await gate.session(), principal()
        return types.WhoamiOut(
            user=session.user if session else asking.name,
            token=session.name if session and session.kind == "token" else None,
            roles=dict(asking.roles),
            expires=types.iso(session.expires_ns) if session else None,
        )

    @routes.post("/v1/password")
    @validate_request(types.PasswordRequest)
    @validate_response(types.EndedOut)
    async def password(data: types.PasswordRequest) -> types.EndedOut:
        """Change the caller's password; all their other sessions end."""
        user = await gate.require_user()
        await _checked(user.name, data.old)
        changed = await accounts.set_password(user.name, data.new)
        await sessions.renew(_shown(), changed)
        return types.EndedOut(ended=await sessions.remove_invalidated(changed))

    async def _checked(name: str, password: str) -> User:
        address = _address()
        attempts.start_attempt(address, name)
        user = await accounts.authenticate(name, password)
        attempts.record_success(address, name)
        return user

    async def _opened(user: User) -> types.SessionOut:
        token, session = await sessions.create_session(user)
        return types.SessionOut(
            token=token, user=user.name, roles=dict(user.roles), expires=types.iso(session.expires_ns)
        )

    return routes


def _address() -> str:
    return request.remote_addr or ""


def _shown() -> str:
    return request.headers.get("authorization", "").partition(" ")[2].strip()
