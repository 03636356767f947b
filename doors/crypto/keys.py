"""Asymmetric keys: import, export and generation.

Guests store public keys as SPKI and private keys as PKCS #8. A family is a key of `_FAMILIES`.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from doors.crypto.job import CryptoProblem, Job, Members, Result

RsaKey = rsa.RSAPublicKey | rsa.RSAPrivateKey
EcKey = ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | x25519.X25519PublicKey
PrivateKey = (
    rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | x25519.X25519PrivateKey
)

CURVES: dict[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_CURVE_NAMES = {curve.name: name for name, curve in CURVES.items()}


@dataclass(frozen=True, slots=True)
class _Family:
    """Keys of an algorithm: their types, its object identifier in DER, and `kty` of its JWK."""

    public: type[Any]
    private: type[Any]
    identifier: bytes
    key_type: str


_FAMILIES = {
    "RSA": _Family(rsa.RSAPublicKey, rsa.RSAPrivateKey, bytes.fromhex("06092a864886f70d010101"), "RSA"),
    "EC": _Family(
        ec.EllipticCurvePublicKey, ec.EllipticCurvePrivateKey, bytes.fromhex("06072a8648ce3d0201"), "EC"
    ),
    "Ed25519": _Family(
        ed25519.Ed25519PublicKey, ed25519.Ed25519PrivateKey, bytes.fromhex("06032b6570"), "OKP"
    ),
    "X25519": _Family(x25519.X25519PublicKey, x25519.X25519PrivateKey, bytes.fromhex("06032b656e"), "OKP"),
}

MAX_RSA_BITS = 8192
MIN_GENERATED_RSA_BITS, MAX_GENERATED_RSA_BITS = 2048, 4096
MAX_KEY_BYTES = 16 << 10
"""Maximum size of an encoded key. A private RSA key of `MAX_RSA_BITS` has some 5 KiB."""
_VERSION_BYTES = 3
"""Bytes of the version in PKCS #8, before the algorithm."""

PUBLIC_EXPONENTS = (3, 65537)
"""Public exponents of generated RSA keys."""
RSA_GENERATION_NS = 60_000_000
"""Mean CPU time of a generated key of 2048 bits; it grows with the fourth power of the size."""


def load_public(encoded: bytes, family: str) -> Any:
    """Return a public key from SPKI. Raises CryptoProblem if it is invalid or not of the family."""
    return _load(load_der_public_key, encoded, family, _FAMILIES[family].public)


def load_private(encoded: bytes, family: str) -> Any:
    """Return a private key from PKCS #8. Raises CryptoProblem if it is invalid or not of the family."""

    def load(data: bytes) -> Any:
        # The library's check takes 0.4 s for 4096 bits, because it tests for primes, and holds the
        # interpreter's lock.
        return load_der_private_key(data, None, unsafe_skip_rsa_key_validation=True)

    return _load(load, encoded, family, _FAMILIES[family].private, _VERSION_BYTES)


def _load(
    load: Callable[[bytes], Any], encoded: bytes, family: str, kind: type[Any], version_bytes: int = 0
) -> Any:
    """Check the algorithm before the library reads the key. Raises CryptoProblem.

    Reading a Diffie-Hellman key, for one, computes for seconds.
    """
    start = _content(encoded, _content(encoded, 0) + version_bytes)
    if not encoded.startswith(_FAMILIES[family].identifier, start):
        raise CryptoProblem("data-error", f"the key is not an {family} key")
    if len(encoded) > MAX_KEY_BYTES:
        raise CryptoProblem("data-error", f"the key has {len(encoded)} bytes, more than {MAX_KEY_BYTES}")
    try:
        key = load(encoded)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CryptoProblem("data-error", "the key cannot be read") from error
    return _checked(key, kind)


def _content(encoded: bytes, position: int) -> int:
    """Return the position after the tag and the length of a DER sequence."""
    length = encoded[position + 1 : position + 2]
    return position + 2 + (length[0] & 0x7F if length and length[0] & 0x80 else 0)


def _checked(key: Any, family: type[Any]) -> Any:
    """Return a key that is safe to compute with. Raises CryptoProblem."""
    if not isinstance(key, family):
        raise CryptoProblem("data-error", "the key belongs to another algorithm or is of another type")
    if isinstance(key, EcKey) and key.curve.name not in _CURVE_NAMES:
        raise CryptoProblem("data-error", f"the curve {key.curve.name} is not available")
    if isinstance(key, RsaKey):
        if key.key_size > MAX_RSA_BITS:
            raise CryptoProblem(
                "data-error", f"the RSA key has {key.key_size} bits; the maximum is {MAX_RSA_BITS}"
            )
        if isinstance(key, rsa.RSAPublicKey):
            e, n = key.public_numbers().e, key.public_numbers().n
            valid = n % 2 == 1 and e % 2 == 1 and 3 <= e < 1 << 64
        else:
            valid = _is_consistent(key.private_numbers())
        if not valid:
            raise CryptoProblem("data-error", "the RSA key is inconsistent")
    return key


def _is_consistent(numbers: rsa.RSAPrivateNumbers) -> bool:
    """Return whether the parts of a private key belong together. Its primes are not tested."""
    p, q, d = numbers.p, numbers.q, numbers.d
    n, e = numbers.public_numbers.n, numbers.public_numbers.e
    if not (p > 2 and q > 2 and p % 2 and q % 2 and p * q == n and e % 2 and 3 <= e < 1 << 64 and 1 < d < n):
        return False
    return (
        d * e % (p - 1) == 1
        and d * e % (q - 1) == 1
        and numbers.dmp1 == d % (p - 1)
        and numbers.dmq1 == d % (q - 1)
        and numbers.iqmp * q % p == 1
        and numbers.iqmp < p
    )


def spki(key: PublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pkcs8(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def import_key(members: Members) -> Job:
    """Return the job that validates a key and converts it to SPKI or PKCS #8.

    Raises CryptoProblem if it is refused.
    """
    family, form = members.text("algorithm"), members.text("format")
    members.choice("algorithm", _FAMILIES)
    curve = members.text("curve") if family == "EC" else ""
    if curve:
        members.choice("curve", CURVES)
    source: Any = members.mapping("key") if form == "jwk" else members.data("key")

    def run() -> Result:
        key: Any
        if form == "spki":
            key = load_public(source, family)
        elif form == "pkcs8":
            key = load_private(source, family)
        elif form == "jwk":
            key = _from_jwk(source, family, curve)
        elif form == "raw" and family != "RSA":
            try:
                if family == "EC":
                    key = ec.EllipticCurvePublicKey.from_encoded_point(CURVES[curve], source)
                else:
                    key = _FAMILIES[family].public.from_public_bytes(source)
            except ValueError as error:
                raise CryptoProblem("data-error", "the key is not a valid public key") from error
        else:
            raise CryptoProblem("not-supported", f"the format {form} is not available for {family}")
        if isinstance(key, EcKey) and _CURVE_NAMES[key.curve.name] != curve:
            raise CryptoProblem(
                "data-error", f"the key has the curve {_CURVE_NAMES[key.curve.name]}, not {curve}"
            )
        return _described(key)

    return Job(run)


def _described(key: Any) -> Result:
    public = isinstance(key, tuple(each.public for each in _FAMILIES.values()))
    result: dict[str, Any] = {
        "type": "public" if public else "private",
        "key": spki(key) if public else pkcs8(key),
    }
    if isinstance(key, RsaKey):
        numbers = (key if isinstance(key, rsa.RSAPublicKey) else key.public_key()).public_numbers()
        result |= {"bits": key.key_size, "public_exponent": _octets(numbers.e)}
    return result


def _from_jwk(jwk: Mapping[str, Any], family: str, curve: str) -> Any:
    expected = {"kty": _FAMILIES[family].key_type} | ({} if family == "RSA" else {"crv": curve or family})
    for name, value in expected.items():
        if jwk.get(name) != value:
            raise CryptoProblem("data-error", f"{name} of the JWK is not {value}")
    try:
        if family == "RSA":
            return _rsa_from_jwk(jwk)
        if family == "EC":
            return _ec_from_jwk(jwk, curve)
        public = _base64url(jwk, "x")
        if "d" not in jwk:
            return _FAMILIES[family].public.from_public_bytes(public)
        key = _FAMILIES[family].private.from_private_bytes(_base64url(jwk, "d"))
        if key.public_key().public_bytes_raw() != public:
            raise CryptoProblem("data-error", "x and d of the JWK do not belong together")
        return key
    except ValueError as error:
        raise CryptoProblem("data-error", "the JWK is not a valid key") from error


def _rsa_from_jwk(jwk: Mapping[str, Any]) -> RsaKey:
    n, e = _integer(jwk, "n"), _integer(jwk, "e")
    if not 0 < n.bit_length() <= MAX_RSA_BITS:
        raise CryptoProblem(
            "data-error", f"the RSA key has {n.bit_length()} bits; the maximum is {MAX_RSA_BITS}"
        )
    public = rsa.RSAPublicNumbers(e, n)
    if "d" not in jwk:
        key: RsaKey = _checked(public.public_key(), rsa.RSAPublicKey)
        return key
    p, q, d, dp, dq, qi = (_integer(jwk, name) for name in ("p", "q", "d", "dp", "dq", "qi"))
    numbers = rsa.RSAPrivateNumbers(p, q, d, dp, dq, qi, public)
    if not _is_consistent(numbers):
        raise CryptoProblem("data-error", "the RSA key is inconsistent")
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _ec_from_jwk(jwk: Mapping[str, Any], curve: str) -> EcKey:
    size = (CURVES[curve].key_size + 7) // 8
    parts = [_base64url(jwk, name) for name in ("x", "y", "d") if name != "d" or "d" in jwk]
    if any(len(part) != size for part in parts):
        raise CryptoProblem("data-error", f"a coordinate of {curve} does not have {size} bytes")
    x, y, *private = (int.from_bytes(part, "big") for part in parts)
    public = ec.EllipticCurvePublicNumbers(x, y, CURVES[curve])
    if private:
        return ec.EllipticCurvePrivateNumbers(private[0], public).private_key()
    return public.public_key()


def _base64url(jwk: Mapping[str, Any], name: str) -> bytes:
    text = jwk.get(name)
    if type(text) is not str or len(text) > 2 * MAX_KEY_BYTES or set(text) & {"+", "/", "="}:
        raise CryptoProblem("data-error", f"{name} of the JWK is missing or not base64url")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise CryptoProblem("data-error", f"{name} of the JWK is not base64url") from error


def _integer(jwk: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(_base64url(jwk, name), "big")


def export_key(members: Members) -> Job:
    """Return the job that converts a key from SPKI or PKCS #8 to another format.

    Raises CryptoProblem if it is refused.
    """
    form, type_of_key, encoded = members.text("format"), members.text("type"), members.data("key")
    family = members.text("algorithm")
    members.choice("algorithm", _FAMILIES)

    def run() -> Result:
        key = (load_public if type_of_key == "public" else load_private)(encoded, family)
        if form == "jwk":
            return {"key": _jwk(key)}
        if form != "raw" or type_of_key != "public" or isinstance(key, rsa.RSAPublicKey):
            raise CryptoProblem("not-supported", f"the format {form} is not available for this key")
        if isinstance(key, ec.EllipticCurvePublicKey):
            return {"key": key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)}
        return {"key": key.public_bytes_raw()}

    return Job(run)


def _jwk(key: Any) -> dict[str, str]:
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        parts = {"d": numbers.d, "p": numbers.p, "q": numbers.q}
        parts |= {"dp": numbers.dmp1, "dq": numbers.dmq1, "qi": numbers.iqmp}
        return {**_jwk(key.public_key()), **{name: _encoded(_octets(part)) for name, part in parts.items()}}
    if isinstance(key, rsa.RSAPublicKey):
        public = key.public_numbers()
        return {"kty": "RSA", "n": _encoded(_octets(public.n)), "e": _encoded(_octets(public.e))}
    if isinstance(key, ec.EllipticCurvePrivateKey):
        scalar = key.private_numbers().private_value
        return {**_jwk(key.public_key()), "d": _encoded(_octets(scalar, (key.curve.key_size + 7) // 8))}
    if isinstance(key, ec.EllipticCurvePublicKey):
        point, size = key.public_numbers(), (key.curve.key_size + 7) // 8
        x, y = _encoded(_octets(point.x, size)), _encoded(_octets(point.y, size))
        return {"kty": "EC", "crv": _CURVE_NAMES[key.curve.name], "x": x, "y": y}
    for name, family in _FAMILIES.items():
        if isinstance(key, family.public):
            return {"kty": "OKP", "crv": name, "x": _encoded(key.public_bytes_raw())}
        if isinstance(key, family.private):
            return {**_jwk(key.public_key()), "d": _encoded(key.private_bytes_raw())}
    raise TypeError(f"{type(key).__name__} has no JWK")


def _octets(number: int, size: int | None = None) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8 if size is None else size, "big")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def generate(members: Members) -> Job:
    """Return the job that generates a key pair. Raises CryptoProblem if it is refused."""
    family = members.text("algorithm")
    if family == "RSA":
        bits, exponent = members.number("bits"), members.number("public_exponent")
        if not MIN_GENERATED_RSA_BITS <= bits <= MAX_GENERATED_RSA_BITS:
            limits = f"{MIN_GENERATED_RSA_BITS} to {MAX_GENERATED_RSA_BITS}"
            message = f"an RSA key of {bits} bits cannot be generated: use {limits} bits"
            raise CryptoProblem("too-expensive", message)
        if exponent not in PUBLIC_EXPONENTS:
            raise CryptoProblem("operation-error", f"the public exponent {exponent} is not 3 or 65537")
        cpu_ns = RSA_GENERATION_NS * bits**4 // 2048**4
        return Job(lambda: _pair(rsa.generate_private_key(exponent, bits)), cpu_ns)
    if family == "EC":
        curve = members.choice("curve", CURVES)
        return Job(lambda: _pair(ec.generate_private_key(curve)), 300_000)
    private = members.choice("algorithm", _FAMILIES).private
    return Job(lambda: _pair(private.generate()), 100_000)


def _pair(key: PrivateKey) -> Result:
    return {"private": pkcs8(key), "public": spki(key.public_key())}
