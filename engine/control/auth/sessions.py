"""Sessions and tokens: what shows, request by request, who asks. Implements `access.Authority`.

Owns the cells `sessions/<sha256 of the token>`. The token itself is random, 256 bits, and kept nowhere; who
reads the bucket can not log in with what they find. A session is its user's, with the roles that they have at
the time; a token is made for programs, with a name, a role that is never more than its user's, and Projects.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import TypeAdapter

from engine.bucket.errors import BucketError
from engine.bucket.protocols import KeyValue, VersionedValue
from engine.control.access import ALL_PROJECTS, Principal, Role, weaker
from engine.control.auth.accounts import AccountConflict, Accounts, User

PREFIX = "sessions/"
SECOND_NS = 1_000_000_000
DAY_NS = 24 * 3600 * SECOND_NS
MAX_SESSION_NS = 90 * DAY_NS
"""How long a session lasts at most, and
"""
MAX_IDLE_NS = 30 * DAY_NS
"""how long without being used."""
LAST_USED_RESOLUTION_NS = 3600 * SECOND_NS
"""How exactly it is kept when a session was used last."""
MAX_CLOCK_SKEW_NS = DAY_NS
"""How far a clock may have been ahead; what was made later than that is not believed for now."""
CACHE_SECONDS = 0.5
MAX_CACHED = 1024
MAX_PER_USER = 50
"""Sessions of a user, and as many tokens."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session or a token. Times count from the Unix epoch, in ns.

    `account` and `generation` are its user's `id` and, of a session, `generation`: those of another password
    are over. `name`, `role` and `projects` are a token's.
    """

    id: str
    kind: Literal["session", "token"]
    user: str
    account: str
    generation: int
    created_ns: int
    expires_ns: int
    used_ns: int
    name: str = ""
    role: Role = "owner"
    projects: tuple[str, ...] = (ALL_PROJECTS,)


_FORM = TypeAdapter(Session)


@dataclass(frozen=True, slots=True)
class _CachedPrincipal:
    principal: Principal
    revision: int | None
    until: float


class Sessions:
    """All sessions and tokens of a service. Methods raise `BucketError` and `AccountError` too."""

    def __init__(
        self,
        cells: KeyValue,
        accounts: Accounts,
        now: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` tells the time (Unix epoch, ns), `clock` seconds that only grow."""
        self._cells, self._accounts = cells, accounts
        self._now, self._clock = now, clock
        self._cache: dict[str, _CachedPrincipal] = {}
        self._creating = asyncio.Lock()

    async def principal(self, token: str) -> Principal | None:
        """Return who shows this token; what is known of one is half a second old at most."""
        key = _key(token)
        known = self._cache.get(key)
        if known and known.until > self._clock() and known.revision == self._accounts.revision:
            return known.principal
        found = await self._valid(key)
        if found is None:
            self._cache.pop(key, None)
            return None
        session, user, revision = found
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        principal = _principal(session, user)
        self._cache[key] = _CachedPrincipal(principal, revision, self._clock() + CACHE_SECONDS)
        return principal

    async def find(self, token: str) -> Session | None:
        """Return what a token stands for, unless it is over."""
        found = await self._valid(_key(token))
        return found[0] if found else None

    async def _valid(self, key: str) -> tuple[Session, User, int | None] | None:
        cell = await self._cells.get(key)
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
            with suppress(BucketError):  # a full disk keeps nobody from reading
                await self._cells.cas(key, _FORM.dump_json(session), cell.revision)
        return session, user, revision

    def _expired(self, session: Session) -> bool:
        now = self._now()
        return now >= session.expires_ns or (
            session.kind == "session" and now - session.used_ns >= MAX_IDLE_NS
        )

    async def create_session(self, user: User) -> tuple[str, Session]:
        """Return the token of a new session, and the session. The oldest of too many ends."""
        await self._sweep(user)
        now = self._now()
        session = Session(
            secrets.token_hex(8),
            "session",
            user.name,
            user.id,
            user.generation,
            now,
            now + MAX_SESSION_NS,
            now,
        )
        return await self._keep("svcs_", session), session

    async def create_token(
        self, user: User, name: str, role: Role, projects: tuple[str, ...], lasts_ns: int
    ) -> tuple[str, Session]:
        """Return a new token for programs. Raises `AccountConflict` where the user has one of this name."""
        now = self._now()
        session = Session(
            *(secrets.token_hex(8), "token", user.name, user.id, 0, now, now + lasts_ns, now),
            name=name,
            role=role,
            projects=projects,
        )
        async with self._creating:
            held = await self.tokens(user)
            if any(token.name == name for token in held):
                raise AccountConflict(
                    f"{user.name} has a token {name} already", "Remove it, or take another name."
                )
            if len(held) >= MAX_PER_USER:
                raise AccountConflict(f"{user.name} has {MAX_PER_USER} tokens already", "Remove one first.")
            return await self._keep("svct_", session), session

    async def tokens(self, user: User) -> list[Session]:
        """Return the user's tokens that are not over, the oldest first."""
        found = [session for _, session in await self._of(user, "token") if not self._expired(session)]
        return sorted(found, key=lambda session: session.created_ns)

    async def revoke(self, token: str) -> None:
        """End what a token stands for, at once."""
        await self._remove(_key(token))

    async def revoke_token(self, user: User, name: str) -> int:
        """End the user's tokens of a name; return how many there were."""
        found = [cell for cell, session in await self._of(user, "token") if session.name == name]
        for cell in found:
            await self._remove(cell.key)
        return len(found)

    async def revoke_sessions(self, user: User) -> int:
        """End all sessions of the user, not their tokens; return how many there were."""
        found = await self._of(user, "session")
        for cell, _ in found:
            await self._remove(cell.key)
        return len(found)

    async def remove_invalidated(self, user: User) -> int:
        """Remove what the user's earlier passwords began, which is over already; return how many."""
        found = [cell for cell in await self._cells.list(PREFIX) if _is_old(_decoded(cell), user)]
        for cell in found:
            await self._remove(cell.key)
        return len(found)

    async def renew(self, token: str, user: User) -> None:
        """Let one session of the user outlive their change of the password."""
        key = _key(token)
        cell = await self._cells.get(key)
        session = _decoded(cell)
        if cell is not None and session is not None and session.account == user.id:
            changed = replace(session, generation=user.generation)
            await self._cells.cas(key, _FORM.dump_json(changed), cell.revision)

    async def _keep(self, prefix: str, session: Session) -> str:
        token = prefix + secrets.token_urlsafe(32)
        await self._cells.cas(_key(token), _FORM.dump_json(session), None)
        return token

    async def _remove(self, key: str) -> None:
        self._cache.pop(key, None)
        cell = await self._cells.get(key)
        while cell is not None:
            await self._cells.cas(key, None, cell.revision)
            cell = await self._cells.get(key)
        self._cache.pop(key, None)

    async def _of(
        self, user: User, kind: Literal["session", "token"]
    ) -> list[tuple[VersionedValue, Session]]:
        every = [(cell, _decoded(cell)) for cell in await self._cells.list(PREFIX)]
        return [(cell, s) for cell, s in every if s is not None and s.kind == kind and _belongs(s, user)]

    async def _sweep(self, user: User) -> None:
        """Remove what is over, of whomever, and what makes room for one more session of the user."""
        users = {known.name: known for known in await self._accounts.users()}
        held = []
        for cell in await self._cells.list(PREFIX):
            session = _decoded(cell)
            owner = users.get(session.user) if session is not None else None
            if session is None or owner is None or self._expired(session) or not _belongs(session, owner):
                await self._cells.cas(cell.key, None, cell.revision)
            elif session.kind == "session" and owner.id == user.id:
                held.append((session.used_ns, cell.key))
        for _, key in sorted(held)[: max(0, len(held) - MAX_PER_USER + 1)]:
            await self._remove(key)


def _key(token: str) -> str:
    shown = token.encode("utf-8", "surrogatepass")
    return PREFIX + hashlib.sha256(shown).hexdigest()


def _belongs(session: Session, user: User) -> bool:
    return session.account == user.id and (session.kind == "token" or session.generation == user.generation)


def _is_old(session: Session | None, user: User) -> bool:
    return session is not None and session.account == user.id and not _belongs(session, user)


def _principal(session: Session, user: User) -> Principal:
    if session.kind == "session":
        return Principal(user.name, user.roles)
    return Principal(f"{user.name}/{session.name}", _narrowed(session, Principal(user.name, user.roles)))


def _narrowed(token: Session, user: Principal) -> Mapping[str, Role]:
    """Return what a token may do: of what its user may, no more than its role, in its Projects."""
    scope = user.roles if ALL_PROJECTS in token.projects else token.projects
    has = {project: user.role(project) for project in scope}
    return {project: weaker(role, token.role) for project, role in has.items() if role is not None}


def _decoded(cell: VersionedValue | None) -> Session | None:
    """Return the session of a cell; what can not be read is none, and its user logs in again."""
    if cell is None or cell.value is None:
        return None
    try:
        return _FORM.validate_json(cell.value, strict=True)
    except ValueError:
        return None
