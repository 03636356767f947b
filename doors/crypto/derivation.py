"""Key derivation: HKDF, PBKDF2, scrypt, ECDH and X25519."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from doors.crypto.hashes import hash_of
from doors.crypto.job import Job, Members, Result
from doors.crypto.keys import load_private, load_public
from doors.crypto.problem import CryptoProblem

MAX_DERIVED_BYTES = 64 << 10
MAX_PBKDF2_ROUNDS = 10_000_000
"""Maximum iterations, times the number of hashes that fill the output."""
MAX_SCRYPT_COST = 1 << 23
"""Maximum product of n, r and p of scrypt."""
_PBKDF2_NS, _SCRYPT_NS = 250, 600


def derive(members: Members) -> Job:
    """Return the job that derives bytes. Raises CryptoProblem if it is refused."""
    name = members.text("algorithm")
    if name not in _DERIVATIONS:
        raise CryptoProblem("not-supported", f"{name} is not one of {', '.join(_DERIVATIONS)}")
    return _DERIVATIONS[name](members)


def _length(members: Members) -> int:
    length = members.number("length")
    if length > MAX_DERIVED_BYTES:
        raise CryptoProblem(
            "too-expensive", f"{length} bytes cannot be derived: the maximum is {MAX_DERIVED_BYTES}"
        )
    return length


def _hkdf(members: Members) -> Job:
    algorithm, length = hash_of(members), _length(members)
    key, salt, info = members.data("key"), members.data("salt", b""), members.data("info", b"")
    if length > 255 * algorithm.digest_size:
        raise CryptoProblem(
            "operation-error", f"HKDF cannot derive {length} bytes with {members.text('hash')}"
        )
    return Job(lambda: {"data": HKDF(algorithm, length, salt or None, info).derive(key) if length else b""})


def _pbkdf2(members: Members) -> Job:
    algorithm, length = hash_of(members), _length(members)
    key, salt, iterations = members.data("key"), members.data("salt", b""), members.number("iterations")
    if not iterations:
        raise CryptoProblem("operation-error", "PBKDF2 needs at least one iteration")
    rounds = iterations * -(-length // algorithm.digest_size)
    if rounds > MAX_PBKDF2_ROUNDS:
        raise CryptoProblem(
            "too-expensive",
            f"PBKDF2 with {iterations:,} iterations for {length} bytes exceeds {MAX_PBKDF2_ROUNDS:,} rounds",
        )
    return Job(
        lambda: {"data": PBKDF2HMAC(algorithm, length, salt, iterations).derive(key) if length else b""},
        rounds * _PBKDF2_NS,
    )


def _scrypt(members: Members) -> Job:
    key, salt, length = members.data("key"), members.data("salt", b""), _length(members)
    n, r, p = members.number("n"), members.number("r"), members.number("p")
    if n < 2 or n & (n - 1) or not r or not p:
        raise CryptoProblem("operation-error", "scrypt needs a power of two as n, and r and p above 0")
    if n * r * p > MAX_SCRYPT_COST:
        raise CryptoProblem(
            "too-expensive", f"scrypt with n={n}, r={r}, p={p} exceeds n * r * p = {MAX_SCRYPT_COST:,}"
        )

    def run() -> Result:
        try:
            return {"data": Scrypt(salt, length, n, r, p).derive(key) if length else b""}
        except ValueError as error:
            raise CryptoProblem("operation-error", f"scrypt: {error}") from error

    return Job(run, n * r * p * _SCRYPT_NS, 128 * r * (n + p))


def _ecdh(members: Members) -> Job:
    private = load_private(members.data("key"), "EC")
    public = load_public(members.data("public"), "EC")
    if private.curve.name != public.curve.name:
        raise CryptoProblem("data-error", "the two keys have different curves")
    cost = 250_000 if private.curve.key_size == 256 else 1_000_000
    return _agreement(lambda: private.exchange(ec.ECDH(), public), cost)


def _x25519(members: Members) -> Job:
    private = load_private(members.data("key"), "X25519")
    public = load_public(members.data("public"), "X25519")
    return _agreement(lambda: private.exchange(public), 100_000)


def _agreement(exchange: Any, cpu_ns: int) -> Job:
    def run() -> Result:
        try:
            return {"data": exchange()}
        except ValueError as error:
            raise CryptoProblem("operation-error", "the keys have no common secret") from error

    return Job(run, cpu_ns)


_DERIVATIONS = {"HKDF": _hkdf, "PBKDF2": _pbkdf2, "scrypt": _scrypt, "ECDH": _ecdh, "X25519": _x25519}
