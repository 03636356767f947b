"""Login sessions and API tokens, which authenticate requests. Implements `access.Authenticator`.

They are stored under `sessions/<sha256 of the token>`. A token is 256 random bits and only its hash is
stored, so reading the bucket does not allow logging in. A session has its user's current roles. An API token
has a name, projects, and a role that is limited by its user's roles.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter

from engine.bucket.protocols import BucketError, KeyValue, VersionedValue
from engine.control.access import ALL_PROJECTS, Principal, Role, weaker
from engine.control.auth.accounts import AccountConflict, Accounts, User

Kind = Literal["session", "token"]
PREFIX = "sessions/"
TOKEN_NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,38}$"
SECOND_NS = 1_000_000_000
DAY_NS = 24 * 3600 * SECOND_NS
MAX_SESSION_NS = 90 * DAY_NS
MAX_IDLE_NS = 30 * DAY_NS
"""A session expires after this long without use."""
LAST_USED_RESOLUTION_NS = 3600 * SECOND_NS
"""Minimum time between updates of a session's last use."""
MAX_CLOCK_SKEW_NS = DAY_NS
"""Sessions created further in the future than this are rejected."""
CACHE_SECONDS = 0.5
MAX_CACHED = 1024
MAX_PER_USER = 50
"""Maximum sessions per user, and maximum tokens per user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session or a token. Times are in ns since the Unix epoch.

    `account` is its user's `id`. `generation` is the user's at login; a session of an earlier password is
    invalid. `name`, `role` and `projects` apply to tokens. `used_ns` of a token is 0 before its first use.
    """

    id: str
    kind: Kind
    user: str
    account: str
    generation: int
    created_ns: int
    expires_ns: int
    used_ns: int
    name: str = ""
    role: Role = "owner"
    projects: tuple[str, ...] = (ALL_PROJECTS,)


_ADAPTER = TypeAdapter(Session)


class Sessions:
    """All sessions and tokens of a service. Methods raise `BucketError` and `AccountError` too."""

    def __init__(
        self,
        kv: KeyValue,
        accounts: Accounts,
        now: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` returns the Unix time in ns, `clock` monotonic seconds."""
        self._kv, self._accounts = kv, accounts
        self._now, self._clock = now, clock
        self._cache: dict[str, tuple[Principal, int | None, float]] = {}
        """Principals, each with the revision of the accounts and when it expires."""
        self._creating = asyncio.Lock()

    async def principal(self, token: str) -> Principal | None:
        """Return the principal of a token, or `None`. Results are cached for half a second."""
        key = _key(token)
        cached, revision, expires_at = self._cache.get(key, (None, None, 0.0))
        if cached and expires_at > self._clock() and revision == self._accounts.revision:
            return cached
        valid = await self._valid(key)
        if valid is None:
            self._cache.pop(key, None)
            return None
        session, user, revision = valid
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        principal = _principal(session, user)
        self._cache[key] = principal, revision, self._clock() + CACHE_SECONDS
        return principal

    async def find(self, token: str) -> Session | None:
        """Return the session of a token, or `None` if it is invalid or expired."""
        valid = await self._valid(_key(token))
        return valid[0] if valid else None

    async def _valid(self, key: str) -> tuple[Session, User, int | None] | None:
        cell = await self._kv.get(key)
        session = _decoded(cell)
        if cell is None or session is None or self._expired(session):
            return None
        if session.created_ns > self._now() + MAX_CLOCK_SKEW_NS:
            return None
        user = await self._accounts.find(session.user)
        revision = self._accounts.revision
        if user is None or not _belongs(session, user):
            return None
        now = self._now()
        if now - session.used_ns > LAST_USED_RESOLUTION_NS:
            session = replace(session, used_ns=now)
            with suppress(BucketError):  # A full disk must not prevent reading.
                await self._kv.cas(key, _ADAPTER.dump_json(session), cell.revision)
        return session, user, revision

    def _expired(self, session: Session) -> bool:
        now = self._now()
        return now >= session.expires_ns or (
            session.kind == "session" and now - session.used_ns >= MAX_IDLE_NS
        )

    async def create_session(self, user: User) -> tuple[str, Session]:
        """Create a session; return its token and the session. Above the limit, the oldest is removed."""
        await self._sweep(user)
        session = replace(self._new(user, "session", MAX_SESSION_NS), generation=user.generation)
        return await self._store("svcs_", session), session

    async def create_token(
        self, user: User, name: str, role: Role, projects: tuple[str, ...], lasts_ns: int
    ) -> tuple[str, Session]:
        """Create an API token. Raises `AccountConflict` if the user already has one of this name."""
        session = replace(self._new(user, "token", lasts_ns), name=name, role=role, projects=projects)
        async with self._creating:
            existing = await self.tokens(user)
            if any(token.name == name for token in existing):
                hint = "Remove it, or choose another name."
                raise AccountConflict(f"{user.name} already has a token {name}", hint)
            if len(existing) >= MAX_PER_USER:
                raise AccountConflict(f"{user.name} already has {MAX_PER_USER} tokens", "Remove one first.")
            return await self._store("svct_", session), session

    def _new(self, user: User, kind: Kind, lasts_ns: int) -> Session:
        now = self._now()
        return Session(
            id=secrets.token_hex(8),
            kind=kind,
            user=user.name,
            account=user.id,
            generation=0,
            created_ns=now,
            expires_ns=now + lasts_ns,
            used_ns=now if kind == "session" else 0,
        )

    async def tokens(self, user: User) -> list[Session]:
        """Return the user's tokens that have not expired, oldest first."""
        tokens = [session for _, session in await self._of(user, "token") if not self._expired(session)]
        return sorted(tokens, key=lambda session: session.created_ns)

    async def revoke(self, token: str) -> None:
        await self._remove(_key(token))

    async def revoke_token(self, user: User, name: str) -> int:
        """Revoke the user's tokens with this name; return their number."""
        return await self._remove_all(c for c, token in await self._of(user, "token") if token.name == name)

    async def revoke_sessions(self, user: User) -> int:
        """Revoke all sessions of the user, but not their tokens; return their number."""
        return await self._remove_all(cell for cell, _ in await self._of(user, "session"))

    async def remove_invalidated(self, user: User) -> int:
        """Remove the user's sessions that a password change has invalidated; return their number."""
        every = [(cell, _decoded(cell)) for cell in await self._kv.list(PREFIX)]
        own = [(cell, s) for cell, s in every if s is not None and s.account == user.id]
        return await self._remove_all(cell for cell, session in own if not _belongs(session, user))

    async def _remove_all(self, cells: Iterable[VersionedValue]) -> int:
        keys = [cell.key for cell in cells]
        for key in keys:
            await self._remove(key)
        return len(keys)

    async def renew(self, token: str, user: User) -> None:
        """Extend one session of the user beyond a password change."""
        key = _key(token)
        cell = await self._kv.get(key)
        session = _decoded(cell)
        if cell is not None and session is not None and session.account == user.id:
            changed = replace(session, generation=user.generation)
            await self._kv.cas(key, _ADAPTER.dump_json(changed), cell.revision)

    async def _store(self, prefix: str, session: Session) -> str:
        token = prefix + secrets.token_urlsafe(32)
        await self._kv.cas(_key(token), _ADAPTER.dump_json(session), None)
        return token

    async def _remove(self, key: str) -> None:
        self._cache.pop(key, None)
        cell = await self._kv.get(key)
        while cell is not None:
            await self._kv.cas(key, None, cell.revision)
            cell = await self._kv.get(key)
        self._cache.pop(key, None)

    async def _of(self, user: User, kind: Kind) -> list[tuple[VersionedValue, Session]]:
        every = [(cell, _decoded(cell)) for cell in await self._kv.list(PREFIX)]
        return [(cell, s) for cell, s in every if s is not None and s.kind == kind and _belongs(s, user)]

    async def _sweep(self, user: User) -> None:
        """Remove all expired sessions, and make room for one more session of the user."""
        users = {account.name: account for account in await self._accounts.users()}
        remaining = []
        for cell in await self._kv.list(PREFIX):
            session = _decoded(cell)
            owner = users.get(session.user) if session is not None else None
            if session is None or owner is None or self._expired(session) or not _belongs(session, owner):
                await self._kv.cas(cell.key, None, cell.revision)
            elif session.kind == "session" and owner.id == user.id:
                remaining.append((session.used_ns, cell.key))
        for _, key in sorted(remaining)[: max(0, len(remaining) - MAX_PER_USER + 1)]:
            await self._remove(key)


def _key(token: str) -> str:
    secret = token.encode("utf-8", "surrogatepass")
    return PREFIX + hashlib.sha256(secret).hexdigest()


def _belongs(session: Session, user: User) -> bool:
    return session.account == user.id and (session.kind == "token" or session.generation == user.generation)


def _principal(session: Session, user: User) -> Principal:
    """Return the caller. A token has the roles of its user, limited to its own role and projects."""
    principal = Principal(user.name, user.roles)
    if session.kind == "session":
        return principal
    scope = user.roles if ALL_PROJECTS in session.projects else session.projects
    has = {project: principal.role(project) for project in scope}
    roles = {project: weaker(role, session.role) for project, role in has.items() if role is not None}
    return Principal(f"{user.name}/{session.name}", roles)


def _decoded(cell: VersionedValue | None) -> Session | None:
    """Return the stored session; `None` if it is unreadable, so its user must log in again."""
    if cell is None:
        return None
    try:
        return _ADAPTER.validate_json(cell.value, strict=True)
    except ValueError:
        return None
