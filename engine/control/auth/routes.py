"""Coming in: the first owner's claim, login and logout, who one is, another password.

Owns these routes, and what each route about accounts does first (`guarded`, `person`).
"""

import asyncio
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from quart import Blueprint, request
from quart_schema import validate_querystring, validate_request, validate_response

from engine.control.access import Forbidden
from engine.control.app import open_to_all, principal
from engine.control.auth.accounts import Accounts, User
from engine.control.auth.login_throttle import Attempts
from engine.control.auth.sessions import Session, Sessions
from engine.control.errors import TooLong
from engine.control.schemas import accounts as types
from engine.errors import SvcError

MOST_BODY = 64 << 10
BODY_SECONDS = 15.0


AS_PERSON = "Log in with a user name and a password, `svc login URL`, and unset SVC_TOKEN if it is set."
"""What to do for what a token may not."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What the routes about accounts share."""

    accounts: Accounts
    sessions: Sessions
    attempts: Attempts

    async def session(self) -> Session | None:
        """Return the session or token that is shown; `None` for whom another authority let in."""
        return await self.sessions.find(_shown())

    async def person(self) -> User:
        """Return the user who asks, by a session of their own. Raises `Forbidden`."""
        session = await self.session()
        user = await self.accounts.find(session.user) if session else None
        if session is None or user is None or session.kind != "session":
            raise Forbidden(
                f"{principal().name} is no user of this service with a session",
                AS_PERSON,
            )
        return user


class Logout(BaseModel):
    """Whether all sessions of the user end, not the one alone that is shown."""

    model_config = ConfigDict(extra="forbid")
    everywhere: bool = False


def guarded(name: str) -> Blueprint:
    """Return a blueprint whose requests are small and come in time."""
    routes = Blueprint(name, __name__)

    @routes.before_request
    async def _whole() -> None:
        if (request.content_length or 0) > MOST_BODY:
            raise TooLong(MOST_BODY)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                size = len(await request.get_data(as_text=False))
        except TimeoutError as error:
            raise SvcError("the request did not come in time", "Send it again.", code="slow") from error
        if size > MOST_BODY:
            raise TooLong(MOST_BODY)

    return routes


def blueprint(gate: Gate) -> Blueprint:
    """Return the routes."""
    routes = guarded("login")
    accounts, sessions, attempts = gate.accounts, gate.sessions, gate.attempts

    @routes.get("/v1/claim")
    @open_to_all
    @validate_response(types.Claimed)
    async def claimed() -> types.Claimed:
        """Say whether the service has an owner."""
        return types.Claimed(claimed=await accounts.claimed())

    @routes.post("/v1/claim")
    @open_to_all
    @validate_request(types.Claim)
    @validate_response(types.OpenSession)
    async def claim(data: types.Claim) -> types.OpenSession:
        """Make the first owner, by the code that the service printed when it started."""
        attempts.begin(_address())
        user = await accounts.claim(data.code, data.user, data.password)
        attempts.succeeded(_address())
        return await _opened(user)

    @routes.post("/v1/login")
    @open_to_all
    @validate_request(types.Credentials)
    @validate_response(types.OpenSession)
    async def login(data: types.Credentials) -> types.OpenSession:
        """Begin a session."""
        user = await _checked(data.user, data.password)
        return await _opened(user)

    @routes.post("/v1/logout")
    @validate_querystring(Logout)
    @validate_response(types.Ended)
    async def logout(query_args: Logout) -> types.Ended:
        """End what is shown, a session or a token; or all sessions of the user, everywhere."""
        if query_args.everywhere:
            return types.Ended(ended=await sessions.end_all(await gate.person()))
        known = await gate.session() is not None
        await sessions.end(_shown())
        return types.Ended(ended=int(known))

    @routes.get("/v1/whoami")
    @validate_response(types.Who)
    async def whoami() -> types.Who:
        """Say who asks, and what they may do."""
        session, asking = await gate.session(), principal()
        return types.Who(
            user=session.user if session else asking.name,
            token=session.name if session and session.kind == "token" else None,
            roles=dict(asking.roles),
            expires=types.iso(session.expires_ns) if session else None,
        )

    @routes.post("/v1/password")
    @validate_request(types.PasswordChange)
    @validate_response(types.Ended)
    async def password(data: types.PasswordChange) -> types.Ended:
        """Change the caller's password; all their other sessions end."""
        user = await gate.person()
        await _checked(user.name, data.old)
        changed = await accounts.set_password(user.name, data.new)
        await sessions.go_on(_shown(), changed)
        return types.Ended(ended=await sessions.end_old(changed))

    async def _checked(name: str, password: str) -> User:
        address = _address()
        attempts.begin(address, name)
        user = await accounts.check(name, password)
        attempts.succeeded(address, name)
        return user

    async def _opened(user: User) -> types.OpenSession:
        token, session = await sessions.open(user)
        return types.OpenSession(
            token=token, user=user.name, roles=dict(user.roles), expires=types.iso(session.expires_ns)
        )

    return routes


def _address() -> str:
    return request.remote_addr or ""


def _shown() -> str:
    return request.headers.get("authorization", "").partition(" ")[2].strip()
