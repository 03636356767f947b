"""Password rules, hashing and verification (argon2id, RFC 9106).

Verification takes the same time for unknown users. Each operation uses 64 MiB, so few run at once, few more
wait, and the rest are rejected.
"""

import asyncio
import base64
import os
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.control.errors import TooManyAttempts
from engine.errors import SvcError

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
        self._hasher = hasher or PasswordHasher()
        self._decoy = _decoy_hash(self._hasher)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._pending = 0

    async def hash(self, password: str) -> str:
        """Return the hash of a new password. Raises `BadPassword` and `TooManyAttempts`."""
        return await self._work(self._hash, validate_new(password), None)

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches the hash. Raises `TooManyAttempts`.

        `None` (unknown user) matches nothing and takes as long.
        """
        return await self._work(self._matches, password, password_hash)

    def outdated(self, password_hash: str) -> bool:
        """Return whether the hash uses weaker parameters than the current ones."""
        return self._hasher.check_needs_rehash(password_hash)

    def _hash(self, password: str, _password_hash: str | None) -> str:
        return self._hasher.hash(password)

    def _matches(self, password: str, password_hash: str | None) -> bool:
        try:
            valid = self._hasher.verify(password_hash or self._decoy, normalize(password))
        except (VerificationError, InvalidHashError, BadPassword):
            return False
        return valid and password_hash is not None

    async def _work(
        self, step: Callable[[str, str | None], T], password: str, password_hash: str | None
    ) -> T:
        if self._pending >= MAX_CONCURRENT + MAX_WAITING:
            raise TooManyAttempts("too many concurrent logins", 1)
        self._pending += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(step, password, password_hash)
        finally:
            self._pending -= 1


def _decoy_hash(hasher: PasswordHasher) -> str:
    """Return a hash that no password matches and that takes as long to verify."""
    salt, digest = (
        base64.b64encode(os.urandom(size)).decode().rstrip("=") for size in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


def normalize(password: str) -> str:
    """Return the canonical form of a password for hashing (RFC 8265, 4.2). Raises `BadPassword`."""
    normalized = unicodedata.normalize("NFC", password[: MAX_LENGTH * 4])
    if len(normalized) > MAX_LENGTH:
        raise BadPassword(f"a password has at most {MAX_LENGTH} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in normalized):
        raise BadPassword("a password cannot contain control characters")
    return normalized


def validate_new(password: str) -> str:
    """Return a new password in canonical form. Raises `BadPassword`."""
    normalized = normalize(password)
    if len(normalized) < MIN_LENGTH:
        raise BadPassword(
            f"a password has at least {MIN_LENGTH} characters",
            "Use several random words.",
        )
    return normalized
