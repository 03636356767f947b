"""Passwords: which are taken, and how they are kept and checked (argon2id, RFC 9106). Owns no account.

A check takes the same time whether there is such a user or not. A few are worked on at once, each with 64
MiB, and a few more wait; who comes on top of these is sent away, so that guesses do not fill the memory.
"""

import asyncio
import base64
import os
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.control.auth.login_throttle import TooManyAttempts
from engine.errors import SvcError

T = TypeVar("T")
MIN_LENGTH, MAX_LENGTH = 10, 1024
"""Characters of a password."""
MAX_CONCURRENT, MAX_WAITING = 2, 32


class BadPassword(SvcError):
    """This can not be a password."""

    code = "bad-password"


class Passwords:
    """Makes hashes and checks against them, on threads."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._nobody = _decoy_hash(self._hasher)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._asked = 0

    async def hash(self, password: str) -> str:
        """Return what is kept of a new password. Raises `BadPassword` and `TooManyAttempts`."""
        return await self._work(self._hash, validate_new(password), None)

    async def matches(self, kept: str | None, password: str) -> bool:
        """Whether this is the password; `None` is nobody's and takes as long. Raises `TooManyAttempts`."""
        return await self._work(self._matches, password, kept)

    def outdated(self, kept: str) -> bool:
        """Whether it was kept by weaker parameters than today's."""
        return self._hasher.check_needs_rehash(kept)

    def _hash(self, password: str, _kept: str | None) -> str:
        return self._hasher.hash(password)

    def _matches(self, password: str, kept: str | None) -> bool:
        try:
            found = self._hasher.verify(kept or self._nobody, normalize(password))
        except (VerificationError, InvalidHashError, BadPassword):
            return False
        return found and kept is not None

    async def _work(self, step: Callable[[str, str | None], T], password: str, kept: str | None) -> T:
        if self._asked >= MAX_CONCURRENT + MAX_WAITING:
            raise TooManyAttempts("too many log in at once", 1)
        self._asked += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(step, password, kept)
        finally:
            self._asked -= 1


def _decoy_hash(hasher: PasswordHasher) -> str:
    """Return what might be kept of a password, and is of none: it takes as long to check."""
    salt, digest = (
        base64.b64encode(os.urandom(size)).decode().rstrip("=") for size in (hasher.salt_len, hasher.hash_len)
    )
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


def normalize(password: str) -> str:
    """Return the one form in which a password is hashed, however it was typed (RFC 8265, 4.2).

    Raises `BadPassword`.
    """
    found = unicodedata.normalize("NFC", password[: MAX_LENGTH * 4])
    if len(found) > MAX_LENGTH:
        raise BadPassword(f"a password has at most {MAX_LENGTH} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in found):
        raise BadPassword("a password has no control characters")
    return found


def validate_new(password: str) -> str:
    """Return a new password, prepared. Raises `BadPassword`."""
    found = normalize(password)
    if len(found) < MIN_LENGTH:
        raise BadPassword(
            f"a password has at least {MIN_LENGTH} characters",
            "A few words that nobody else combines are good.",
        )
    return found
