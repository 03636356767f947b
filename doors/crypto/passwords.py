"""Password hashes: Argon2 in the PHC string format, with the parameters that OWASP recommends."""

from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type

from doors.crypto.job import Job, Members, Result
from doors.crypto.problem import CryptoProblem

MEMORY_KIB, PASSES, LANES = 19_456, 2, 1
MAX_PASSWORD_BYTES = 4096
MAX_MEMORY_KIB = 256 << 10
MAX_COST_KIB = 2 << 20
"""Maximum memory times passes of a hash to verify."""
MAX_LANES = 4
"""Maximum parallelism of a hash to verify: each lane is a thread."""
_NS_PER_KIB = 1_400

_hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES)


def hash_password(members: Members) -> Job:
    """Return the job that hashes a password with a random salt. Raises CryptoProblem if it is too long."""
    password = _password(members)
    return Job(lambda: {"hash": _hasher.hash(password)}, _cost(MEMORY_KIB, PASSES), MEMORY_KIB << 10)


def verify_password(members: Members) -> Job:
    """Return the job that verifies a password. `rehash` is true if the hash has weaker parameters.

    Raises CryptoProblem if the hash is not valid or too expensive.
    """
    password, text = _password(members), members.text("hash")
    try:
        parameters = extract_parameters(text)
    except InvalidHashError as error:
        raise CryptoProblem("data-error", "the hash is not an Argon2 hash in the PHC format") from error
    _check(parameters)

    def run() -> Result:
        try:
            _hasher.verify(text, password)
        except VerifyMismatchError:
            return {"valid": False, "rehash": False}
        except (InvalidHashError, VerificationError) as error:
            raise CryptoProblem("data-error", "the hash is not an Argon2 hash in the PHC format") from error
        return {"valid": True, "rehash": _is_weaker(parameters)}

    return Job(run, _cost(parameters.memory_cost, parameters.time_cost), parameters.memory_cost << 10)


def _password(members: Members) -> bytes:
    password = members.text("password").encode("utf-8", "surrogatepass")
    if len(password) > MAX_PASSWORD_BYTES:
        raise CryptoProblem(
            "too-large", f"the password has {len(password)} bytes, more than {MAX_PASSWORD_BYTES}"
        )
    return password


def _check(parameters: Parameters) -> None:
    memory, passes, lanes = parameters.memory_cost, parameters.time_cost, parameters.parallelism
    if memory > MAX_MEMORY_KIB or memory * passes > MAX_COST_KIB or lanes > MAX_LANES:
        raise CryptoProblem(
            "too-expensive",
            f"a hash with m={memory}, t={passes}, p={lanes} exceeds "
            f"m={MAX_MEMORY_KIB}, m * t={MAX_COST_KIB}, p={MAX_LANES}",
        )


def _is_weaker(parameters: Parameters) -> bool:
    return (
        parameters.type is not Type.ID
        or parameters.memory_cost < MEMORY_KIB
        or parameters.memory_cost * parameters.time_cost < MEMORY_KIB * PASSES
    )


def _cost(memory_kib: int, passes: int) -> int:
    return memory_kib * passes * _NS_PER_KIB
