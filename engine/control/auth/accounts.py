"""User accounts of a service: names, password hashes, roles, and the claim code for the first owner.

All users are one document under the key `accounts`, changed by compare-and-set. This makes two rules atomic:
an owner always exists, and only one claim of the service succeeds.

Passwords are hashed by argon2id (RFC 9106). Verification takes the same time for unknown users. Each
operation uses 64 MiB, so few run at once, few more wait, and the rest are rejected.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import secrets
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import TypeAdapter

from engine.bucket.protocols import KeyValue, StaleRevision
from engine.control.access import ALL_PROJECTS, Role, Unauthenticated
from engine.control.errors import NotFound, TooManyAttempts
from engine.errors import SvcError
from engine.manifest.schema import NAME_RULE, is_name

T = TypeVar("T")
MIN_LENGTH, MAX_LENGTH = 10, 1024
"""Length limits in characters."""
MAX_CONCURRENT, MAX_WAITING = 2, 32


class BadPassword(SvcError):
    """The password violates the rules."""

    code = "bad-password"


class Passwords:
    """Hashes and verifies passwords on threads."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = own = hasher or PasswordHasher()
        # No password matches this hash, and its verification takes as long.
        sizes = (own.salt_len, own.hash_len)
        salt, digest = (base64.b64encode(os.urandom(size)).decode().rstrip("=") for size in sizes)
        costs = f"m={own.memory_cost},t={own.time_cost},p={own.parallelism}"
        self._decoy = f"$argon2id$v=19${costs}${salt}${digest}"
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._pending = 0

    async def hash(self, password: str) -> str:
        """Return the hash of a new password. Raises `BadPassword` and `TooManyAttempts`."""
        normalized = normalize(password)
        if len(normalized) < MIN_LENGTH:
            raise BadPassword(f"a password has at least {MIN_LENGTH} characters", "Use several random words.")
        return await self._work(lambda: self._hasher.hash(normalized))

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches the hash. Raises `TooManyAttempts`.

        `None` (unknown user) matches nothing and takes as long.
        """
        return await self._work(lambda: self._matches(password, password_hash))

    def outdated(self, password_hash: str) -> bool:
        """Return whether the hash uses weaker parameters than the current ones."""
        return self._hasher.check_needs_rehash(password_hash)

    def _matches(self, password: str, password_hash: str | None) -> bool:
        try:
            valid = self._hasher.verify(password_hash or self._decoy, normalize(password))
        except (VerificationError, InvalidHashError, BadPassword):
            return False
        return valid and password_hash is not None

    async def _work(self, step: Callable[[], T]) -> T:
        if self._pending >= MAX_CONCURRENT + MAX_WAITING:
            raise TooManyAttempts("too many concurrent logins", 1)
        self._pending += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(step)
        finally:
            self._pending -= 1


def normalize(password: str) -> str:
    """Return the canonical form of a password for hashing (RFC 8265, 4.2). Raises `BadPassword`."""
    normalized = unicodedata.normalize("NFC", password[: MAX_LENGTH * 4])
    if len(normalized) > MAX_LENGTH:
        raise BadPassword(f"a password has at most {MAX_LENGTH} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in normalized):
        raise BadPassword("a password cannot contain control characters")
    return normalized


ACCOUNTS_KEY = "accounts"
FORMAT_VERSION = 1
MAX_USERS, MAX_ROLES = 1000, 200
_CODE_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_CODE_GROUPS, _CODE_GROUP = 5, 5
"""31 letters, 25 times: 123 bits."""


class AccountError(SvcError):
    """The requested change of accounts is invalid."""

    code = "account"


class AccountConflict(SvcError):
    """The requested change conflicts with the existing accounts."""

    code = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user with a password. `roles` maps projects to roles; `*` stands for every project.

    `created_ns` counts from the Unix epoch. `id` distinguishes users that had the same name at different
    times. `generation` increases with each password change.
    """

    name: str
    id: str
    password: str
    generation: int
    roles: Mapping[str, Role]
    created_ns: int


@dataclass(frozen=True, slots=True)
class _AccountsDocument:
    """The stored document. `claim` is the sha256 of the claim code, empty once an owner exists."""

    version: int
    claim: str
    users: Mapping[str, User]


_ADAPTER = TypeAdapter(_AccountsDocument)
_EMPTY = _AccountsDocument(FORMAT_VERSION, "", {})


class Accounts:
    """The accounts of a service. Methods raise `BucketError` too. `now` returns the Unix time in ns."""

    def __init__(
        self, kv: KeyValue, passwords: Passwords | None = None, now: Callable[[], int] = time.time_ns
    ) -> None:
        self._kv = kv
        self._passwords = passwords or Passwords()
        self._now = now
        self.revision: int | None = None
        """Revision that this process last read or wrote."""
        self._read = _EMPTY

    async def _load(self) -> _AccountsDocument:
        stored = await self._kv.get(ACCOUNTS_KEY)
        if stored is None:
            self.revision, self._read = None, _EMPTY
        elif stored.revision != self.revision:
            self.revision, self._read = stored.revision, _decoded(stored.value)
        return self._read

    async def _change(self, change: Callable[[_AccountsDocument], _AccountsDocument]) -> _AccountsDocument:
        """Apply a change by compare-and-set; retry on conflict."""
        while True:
            document = await self._load()
            revision = self.revision
            changed = change(document)
            answer = await self._kv.cas(ACCOUNTS_KEY, _ADAPTER.dump_json(changed), revision)
            if not isinstance(answer, StaleRevision):
                self.revision, self._read = answer, changed
                return changed

    async def claimed(self) -> bool:
        return bool((await self._load()).users)

    async def new_claim_code(self) -> str | None:
        """Create a claim code, which replaces the previous one; `None` if an owner exists.

        The code is renewed at each start of the service, so a lost or leaked code is void after a restart.
        """
        if await self.claimed():
            return None
        groups = (
            "".join(secrets.choice(_CODE_ALPHABET) for _ in range(_CODE_GROUP)) for _ in range(_CODE_GROUPS)
        )
        code = "-".join(groups)
        document = await self._change(
            lambda document: document if document.users else replace(document, claim=_digest(code))
        )
        return None if document.users else code

    async def check_claim(self, code: str) -> None:
        """Raise `AccountConflict` if an owner exists, and `Unauthenticated` for a wrong claim code."""
        _check_claim(await self._load(), code)

    async def claim(self, code: str, name: str, password: str) -> User:
        """Create the first owner.

        Raises `AccountConflict` if an owner exists, `Unauthenticated` for a wrong code, and `BadPassword`.
        """
        await self.check_claim(code)
        user = await self._new(name, password, {ALL_PROJECTS: "owner"})

        def first(document: _AccountsDocument) -> _AccountsDocument:
            _check_claim(document, code)
            return replace(document, claim="", users={name: user})

        await self._change(first)
        return user

    async def authenticate(self, name: str, password: str) -> User:
        """Return the user with this name and password. Raises `Unauthenticated` and `TooManyAttempts`."""
        user = (await self._load()).users.get(name)
        if not await self._passwords.matches(user.password if user else None, password) or user is None:
            raise Unauthenticated("the user name or the password is wrong")
        if self._passwords.outdated(user.password):
            stronger = replace(user, password=await self._passwords.hash(password))
            # A password that was changed meanwhile stays.
            await self._change(lambda old: _with(old, stronger) if old.users.get(name) == user else old)
        return user

    async def users(self) -> list[User]:
        """Return all users, sorted by name."""
        return [user for _, user in sorted((await self._load()).users.items())]

    async def find(self, name: str) -> User | None:
        return (await self._load()).users.get(name)

    async def add(self, name: str, password: str, roles: Mapping[str, Role]) -> User:
        """Create a user. Raises `AccountConflict` if the name is taken, `AccountError` and `BadPassword`."""
        user = await self._new(name, password, _validated(roles))

        def added(document: _AccountsDocument) -> _AccountsDocument:
            if name in document.users:
                raise AccountConflict(f"the user {name} already exists", "Choose another name.")
            if len(document.users) >= MAX_USERS:
                raise AccountError(f"the limit of {MAX_USERS} users is reached", "Remove a user first.")
            return replace(document, users={**document.users, name: user})

        await self._change(added)
        return user

    async def set_password(self, name: str, password: str) -> User:
        """Set a user's password, which ends their sessions. Raises `NotFound` and `BadPassword`."""
        _require_user(await self._load(), name)
        password_hash = await self._passwords.hash(password)

        def changed(document: _AccountsDocument) -> _AccountsDocument:
            user = _require_user(document, name)
            return _with(document, replace(user, password=password_hash, generation=user.generation + 1))

        return (await self._change(changed)).users[name]

    async def set_role(self, name: str, project: str, role: Role | None) -> User:
        """Set a user's role in a project; `None` removes it.

        Raises `NotFound`, `AccountError`, and `AccountConflict` for the last owner.
        """

        def changed(document: _AccountsDocument) -> _AccountsDocument:
            user = _require_user(document, name)
            other_roles = {key: has for key, has in user.roles.items() if key != project}
            roles = other_roles if role is None else _validated({**other_roles, project: role})
            return _with(document, replace(user, roles=roles))

        return (await self._change(changed)).users[name]

    async def remove(self, name: str) -> None:
        """Remove a user, which invalidates their sessions and tokens.

        Raises `NotFound`, and `AccountConflict` for the last owner.
        """

        def removed(document: _AccountsDocument) -> _AccountsDocument:
            _require_user(document, name)
            remaining = {key: user for key, user in document.users.items() if key != name}
            return _require_owner(replace(document, users=remaining))

        await self._change(removed)

    async def _new(self, name: str, password: str, roles: Mapping[str, Role]) -> User:
        if not is_name(name):
            raise AccountError(f"invalid user name {name[:60]!r}", NAME_RULE)
        password_hash, id_ = await self._passwords.hash(password), secrets.token_hex(8)
        return User(
            name=name, id=id_, password=password_hash, generation=1, roles=roles, created_ns=self._now()
        )


def _digest(code: str) -> str:
    plain = "".join(character for character in code.lower() if character not in "- \t\r\n")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def _check_claim(document: _AccountsDocument, code: str) -> None:
    if document.users:
        raise AccountConflict("this service already has an owner", "Log in with `svc login`.")
    if not document.claim or not hmac.compare_digest(_digest(code), document.claim):
        raise Unauthenticated("wrong claim code", "Use the code that `svc serve` printed at its last start.")


def _validated(roles: Mapping[str, Role]) -> dict[str, Role]:
    if len(roles) > MAX_ROLES:
        raise AccountError(f"a user has at most {MAX_ROLES} roles", "Use one role for every project: *.")
    for project in roles:
        if project != ALL_PROJECTS and not is_name(project):
            raise AccountError(f"invalid project name {project[:60]!r}", NAME_RULE)
    return dict(roles)


def _require_user(document: _AccountsDocument, name: str) -> User:
    user = document.users.get(name)
    if user is None:
        raise NotFound(f"user {name[:60]!r} not found", "Run `svc user list` to list the users.")
    return user


def _with(document: _AccountsDocument, user: User) -> _AccountsDocument:
    return _require_owner(replace(document, users={**document.users, user.name: user}))


def _require_owner(document: _AccountsDocument) -> _AccountsDocument:
    if not any(user.roles.get(ALL_PROJECTS) == "owner" for user in document.users.values()):
        hint = "Make another user owner of every project (*) first."
        raise AccountConflict("the service would have no owner", hint)
    return document


def _decoded(value: bytes) -> _AccountsDocument:
    try:
        version = json.loads(value)["version"]
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise AccountError("a newer svc wrote the accounts", "Update svc.")
        return _ADAPTER.validate_json(value, strict=True)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AccountError("the stored accounts are corrupt", "Restore control.db from a backup.") from error
