"""The operations of the crypto Door by path."""

from collections.abc import Callable

from doors.crypto.ciphers import decrypt, encrypt
from doors.crypto.derivation import derive, hash_password, verify_password
from doors.crypto.hashes import digest, hmac
from doors.crypto.job import Job, Members
from doors.crypto.keys import export_key, generate, import_key
from doors.crypto.signatures import sign, verify

OPERATIONS: dict[str, Callable[[Members], Job]] = {
    "/v1/digest": digest,
    "/v1/hmac": hmac,
    "/v1/sign": sign,
    "/v1/verify": verify,
    "/v1/encrypt": encrypt,
    "/v1/decrypt": decrypt,
    "/v1/derive": derive,
    "/v1/generate": generate,
    "/v1/import": import_key,
    "/v1/export": export_key,
    "/v1/password/hash": hash_password,
    "/v1/password/verify": verify_password,
}
BULK = frozenset({"/v1/digest", "/v1/hmac", "/v1/sign", "/v1/verify", "/v1/encrypt", "/v1/decrypt"})
"""Operations that take more than `door.QUICK_BYTES`."""
