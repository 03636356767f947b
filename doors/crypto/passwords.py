"""Password hashes: Argon2 in the PHC string format, with the parameters that OWASP recommends."""

from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type

from doors.crypto.job import Job, Members, Result
from doors.crypto.problem import CryptoProblem

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
