"""Hash functions: digests, HMAC, and the hashes of other algorithms by their WebCrypto name."""

import hashlib
import hmac as hmac_module

from cryptography.hazmat.primitives import hashes

from doors.crypto.job import Job, Members

DIGESTS = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA-512/256": "sha512_256",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Names in hashlib of the hashes for `digest` and `hmac`."""

NS_PER_BYTE = 2
"""Estimated CPU time of hashing a byte."""
_ALGORITHMS: dict[str, hashes.HashAlgorithm] = {
    "SHA-1": hashes.SHA1(),
    "SHA-224": hashes.SHA224(),
    "SHA-256": hashes.SHA256(),
    "SHA-384": hashes.SHA384(),
    "SHA-512": hashes.SHA512(),
}


def hash_of(members: Members) -> hashes.HashAlgorithm:
    """Return the hash of signatures and key derivation. Raises CryptoProblem if it is not available."""
    return members.choice("hash", _ALGORITHMS)


def digest(members: Members) -> Job:
    """Return the job that hashes data. Raises CryptoProblem if it is refused."""
    name, data = members.choice("hash", DIGESTS), members.data("data")
    return Job(lambda: {"data": hashlib.new(name, data).digest()})


def hmac(members: Members) -> Job:
    """Return the job that computes an HMAC. Raises CryptoProblem if it is refused."""
    name, key, data = members.choice("hash", DIGESTS), members.data("key"), members.data("data")
    return Job(lambda: {"data": hmac_module.digest(key, data, name)})
