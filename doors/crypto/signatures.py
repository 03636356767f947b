"""Signatures: RSASSA-PKCS1-v1_5, RSA-PSS, ECDSA in the format of IEEE P1363, and Ed25519."""

from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from doors.crypto.hashes import hash_of
from doors.crypto.job import Job, Members, Result
from doors.crypto.keys import RsaKey, load_private, load_public
from doors.crypto.problem import CryptoProblem

_FAMILIES = {"RSASSA-PKCS1-v1_5": "RSA", "RSA-PSS": "RSA", "ECDSA": "EC", "Ed25519": "Ed25519"}
_EC_NS = {256: 250_000, 384: 1_000_000, 521: 1_700_000}
RSA_PRIVATE_NS = 1_200_000
"""CPU time of a private operation with 2048 bits; it grows with the third power of the size."""
_RSA_PUBLIC_NS = 70_000
_Y_MASK = (1 << 255) - 1
_P = (1 << 255) - 19
_ORDER_8_Y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _P, _P + 1, _ORDER_8_Y, _P - _ORDER_8_Y})
"""Encodings of the y coordinate of points with an order of at most 8, also those that are not reduced."""


def rsa_ns(key: RsaKey) -> int:
    """Return the estimated CPU time of one operation with an RSA key."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RSA_PRIVATE_NS * key.key_size**3 // 2048**3
    exponent_bits: int = key.public_numbers().e.bit_length()
    return _RSA_PUBLIC_NS * key.key_size**2 // 2048**2 * max(1, exponent_bits // 17)


def _cost(key: Any) -> int:
    if isinstance(key, RsaKey):
        return rsa_ns(key)
    if isinstance(key, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey):
        return _EC_NS[key.curve.key_size]
    return 100_000


def _rsa_padding(members: Members, algorithm: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if members.text("algorithm") == "RSA-PSS":
        return padding.PSS(padding.MGF1(algorithm), members.number("salt_length"))
    return padding.PKCS1v15()


def sign(members: Members) -> Job:
    """Return the job that signs data. Raises CryptoProblem if it is refused."""
    key: Any = load_private(members.data("key"), members.choice("algorithm", _FAMILIES))
    data = members.data("data")
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return Job(lambda: {"data": key.sign(data)}, _cost(key))
    algorithm = hash_of(members)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return Job(lambda: {"data": _sign_ecdsa(key, data, algorithm)}, _cost(key))
    scheme = _rsa_padding(members, algorithm)

    def run() -> Result:
        try:
            return {"data": key.sign(data, scheme, algorithm)}
        except ValueError as error:
            raise CryptoProblem(
                "operation-error", "the RSA key is too short for this hash or salt"
            ) from error

    return Job(run, _cost(key))


def _sign_ecdsa(key: ec.EllipticCurvePrivateKey, data: bytes, algorithm: hashes.HashAlgorithm) -> bytes:
    size = (key.curve.key_size + 7) // 8
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(algorithm)))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def verify(members: Members) -> Job:
    """Return the job that verifies a signature. Raises CryptoProblem if it is refused."""
    key: Any = load_public(members.data("key"), members.choice("algorithm", _FAMILIES))
    data, signature = members.data("data"), members.data("signature")
    if isinstance(key, ed25519.Ed25519PublicKey):
        if _has_small_order(key.public_bytes_raw()) or _has_small_order(signature[:32]):
            return Job(lambda: {"valid": False})
        return Job(lambda: _valid(lambda: key.verify(signature, data)), _cost(key))
    algorithm = hash_of(members)
    if isinstance(key, ec.EllipticCurvePublicKey):
        size = (key.curve.key_size + 7) // 8
        if len(signature) != 2 * size:
            return Job(lambda: {"valid": False})
        encoded = encode_dss_signature(
            int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
        )
        return Job(lambda: _valid(lambda: key.verify(encoded, data, ec.ECDSA(algorithm))), _cost(key))
    scheme = _rsa_padding(members, algorithm)
    return Job(lambda: _valid(lambda: key.verify(signature, data, scheme, algorithm)), _cost(key))


def _has_small_order(point: bytes) -> bool:
    """Return whether a point of Ed25519 has an order of at most 8: signatures of such keys prove nothing."""
    return len(point) == 32 and int.from_bytes(point, "little") & _Y_MASK in _SMALL_ORDER_Y


def _valid(check: Callable[[], None]) -> Result:
    """Return whether a signature is valid."""
    try:
        check()
    except (InvalidSignature, ValueError):
        return {"valid": False}
    return {"valid": True}
