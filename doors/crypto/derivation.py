"""Key derivation: HKDF, PBKDF2, scrypt, ECDH and X25519; password hashes: Argon2.

Hashes are in the PHC string format, with the parameters that OWASP recommends.
"""

from typing import Any

from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from doors.crypto.hashes import NS_PER_BYTE, hash_of
from doors.crypto.job import Job, Members, Result
from doors.crypto.keys import load_private, load_public
from doors.crypto.problem import CryptoProblem

MAX_DERIVED_BYTES = 64 << 10
_SCRYPT_NS = 600
"""CPU time of mixing 128 bytes of scrypt's memory twice."""


def derive(members: Members) -> Job:
    """Return the job that derives bytes. Raises CryptoProblem if it is refused."""
    return members.choice("algorithm", _DERIVATIONS)(members)


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
    return Job(
        lambda: {"data": HKDF(algorithm, length, salt or None, info).derive(key) if length else b""},
        _hmacs_ns(algorithm, length, len(info)),
    )


def _hmacs_ns(algorithm: hashes.HashAlgorithm, length: int, size: int, rounds: int = 1) -> int:
    """Return the CPU time of filling `length` bytes with HMACs of `size` bytes, repeated in rounds."""
    blocks = -(-length // algorithm.digest_size)
    assert algorithm.block_size is not None
    return blocks * (size + rounds * 2 * algorithm.block_size) * NS_PER_BYTE


def _pbkdf2(members: Members) -> Job:
    algorithm, length = hash_of(members), _length(members)
    key, salt, iterations = members.data("key"), members.data("salt", b""), members.number("iterations")
    if not iterations:
        raise CryptoProblem("operation-error", "PBKDF2 needs at least one iteration")
    return Job(
        lambda: {"data": PBKDF2HMAC(algorithm, length, salt, iterations).derive(key) if length else b""},
        _hmacs_ns(algorithm, length, len(salt), iterations),
    )


def _scrypt(members: Members) -> Job:
    key, salt, length = members.data("key"), members.data("salt", b""), _length(members)
    n, r, p = members.number("n"), members.number("r"), members.number("p")
    if n < 2 or n & (n - 1) or not r or not p:
        raise CryptoProblem("operation-error", "scrypt needs a power of two as n, and r and p above 0")

    def run() -> Result:
        try:
            return {"data": Scrypt(salt, length, n, r, p).derive(key) if length else b""}
        except (ValueError, MemoryError) as error:
            raise CryptoProblem("operation-error", f"scrypt: {error}") from error

    # PBKDF2 makes 128 * r * p bytes from the salt, and the output from the same number of mixed bytes.
    sha256, mixed = hashes.SHA256(), 128 * r * p
    hashing_ns = _hmacs_ns(sha256, mixed, len(salt)) + _hmacs_ns(sha256, length, mixed)
    return Job(run, n * r * p * _SCRYPT_NS + hashing_ns, 128 * r * (n + p))


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


MEMORY_KIB, PASSES, LANES = 19_456, 2, 1
MAX_PASSWORD_BYTES = 4096
MAX_LANES = 4
"""Maximum parallelism of a hash to verify: each lane is a thread."""
_NS_PER_KIB, _NS_PER_THREAD, _NS_PER_CHARACTER = 1_400, 30_000, 20
"""CPU time of a pass over memory, of starting a thread, and of reading the hash."""

_hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES)


def hash_password(members: Members) -> Job:
    """Return the job that hashes a password with a random salt. Raises CryptoProblem if it is too long."""
    password = _password(members)
    return Job(lambda: {"hash": _hasher.hash(password)}, MEMORY_KIB * PASSES * _NS_PER_KIB, MEMORY_KIB << 10)


def verify_password(members: Members) -> Job:
    """Return the job that verifies a password. `rehash` is true if the hash has weaker parameters.

    Raises CryptoProblem if the hash is not valid or too expensive.
    """
    password, text = _password(members), members.text("hash")
    try:
        parameters = extract_parameters(text)
    except InvalidHashError as error:
        raise CryptoProblem("data-error", "the hash is not an Argon2 hash in the PHC format") from error
    memory, passes, lanes = parameters.memory_cost, parameters.time_cost, parameters.parallelism
    if lanes > MAX_LANES:
        raise CryptoProblem("too-expensive", f"a hash with {lanes} lanes exceeds {MAX_LANES}")
    # Each pass starts every lane four times.
    threads = 4 * passes * lanes if lanes > 1 else 0
    cpu_ns = memory * passes * _NS_PER_KIB + threads * _NS_PER_THREAD + len(text) * _NS_PER_CHARACTER

    def run() -> Result:
        try:
            _hasher.verify(text, password)
        except VerifyMismatchError:
            return {"valid": False, "rehash": False}
        except (InvalidHashError, VerificationError) as error:
            raise CryptoProblem("data-error", "the hash is not an Argon2 hash in the PHC format") from error
        return {"valid": True, "rehash": _is_weaker(parameters)}

    return Job(run, cpu_ns, memory << 10)


def _password(members: Members) -> bytes:
    password = members.text("password").encode("utf-8", "surrogatepass")
    if len(password) > MAX_PASSWORD_BYTES:
        raise CryptoProblem(
            "too-large", f"the password has {len(password)} bytes, more than {MAX_PASSWORD_BYTES}"
        )
    return password


def _is_weaker(parameters: Parameters) -> bool:
    return (
        parameters.type is not Type.ID
        or parameters.memory_cost < MEMORY_KIB
        or parameters.memory_cost * parameters.time_cost < MEMORY_KIB * PASSES
    )
