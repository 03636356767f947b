"""The operations of the crypto Door by path: hashes, signatures, encryption, key derivation and passwords.

Hashes have their WebCrypto names, and signatures of ECDSA the format of IEEE P1363. Hashes of passwords are
in the PHC string format, with the parameters that OWASP recommends.
"""

import hashlib
import hmac as hmac_module
from collections.abc import Callable
from functools import partial
from typing import Any

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, keywrap
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.padding import PKCS7

from doors.crypto.job import CryptoProblem, Job, Members, Result
from doors.crypto.keys import EcKey, export_key, generate, import_key, load_private, load_public

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


def _agreement(members: Members, *, family: str) -> Job:
    private, public = load_private(members.data("key"), family), load_public(members.data("public"), family)
    arguments, cpu_ns = [public], 100_000
    if family == "EC":
        if private.curve.name != public.curve.name:
            raise CryptoProblem("data-error", "the two keys have different curves")
        arguments, cpu_ns = [ec.ECDH(), public], 250_000 if private.curve.key_size == 256 else 1_000_000

    def run() -> Result:
        try:
            return {"data": private.exchange(*arguments)}
        except ValueError as error:
            raise CryptoProblem("operation-error", "the keys have no common secret") from error

    return Job(run, cpu_ns)


_DERIVATIONS: dict[str, Callable[[Members], Job]] = {
    "HKDF": _hkdf,
    "PBKDF2": _pbkdf2,
    "scrypt": _scrypt,
    "ECDH": partial(_agreement, family="EC"),
    "X25519": partial(_agreement, family="X25519"),
}


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
        weaker = (
            parameters.type is not Type.ID or memory < MEMORY_KIB or memory * passes < MEMORY_KIB * PASSES
        )
        return {"valid": True, "rehash": weaker}

    return Job(run, cpu_ns, memory << 10)


def _password(members: Members) -> bytes:
    password = members.text("password").encode("utf-8", "surrogatepass")
    if len(password) > MAX_PASSWORD_BYTES:
        raise CryptoProblem(
            "too-large", f"the password has {len(password)} bytes, more than {MAX_PASSWORD_BYTES}"
        )
    return password


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


def _cost(key: Any) -> int:
    """Return the estimated CPU time of one operation with a key."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RSA_PRIVATE_NS * key.key_size**3 // 2048**3
    if isinstance(key, rsa.RSAPublicKey):
        exponent_bits: int = key.public_numbers().e.bit_length()
        return _RSA_PUBLIC_NS * key.key_size**2 // 2048**2 * max(1, exponent_bits // 17)
    if isinstance(key, EcKey):
        return _EC_NS[key.curve.key_size]
    return 100_000


def _scheme(members: Members, key: Any) -> tuple[Any, ...]:
    """Return the last arguments of `sign` and `verify` of a key."""
    if isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        return ()
    algorithm = hash_of(members)
    if isinstance(key, EcKey):
        return (ec.ECDSA(algorithm),)
    if members.text("algorithm") == "RSA-PSS":
        return padding.PSS(padding.MGF1(algorithm), members.number("salt_length")), algorithm
    return padding.PKCS1v15(), algorithm


def sign(members: Members) -> Job:
    """Return the job that signs data. Raises CryptoProblem if it is refused."""
    key: Any = load_private(members.data("key"), members.choice("algorithm", _FAMILIES))
    data, scheme = members.data("data"), _scheme(members, key)

    def run() -> Result:
        try:
            signature = key.sign(data, *scheme)
        except ValueError as error:
            raise CryptoProblem(
                "operation-error", "the RSA key is too short for this hash or salt"
            ) from error
        if isinstance(key, EcKey):
            size = (key.curve.key_size + 7) // 8
            signature = b"".join(part.to_bytes(size, "big") for part in decode_dss_signature(signature))
        return {"data": signature}

    return Job(run, _cost(key))


def verify(members: Members) -> Job:
    """Return the job that verifies a signature. Raises CryptoProblem if it is refused."""
    key: Any = load_public(members.data("key"), members.choice("algorithm", _FAMILIES))
    data, signature, scheme = members.data("data"), members.data("signature"), _scheme(members, key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        if _has_small_order(key.public_bytes_raw()) or _has_small_order(signature[:32]):
            return Job(lambda: {"valid": False})
    elif isinstance(key, EcKey):
        size = (key.curve.key_size + 7) // 8
        if len(signature) != 2 * size:
            return Job(lambda: {"valid": False})
        r, s = (int.from_bytes(part, "big") for part in (signature[:size], signature[size:]))
        signature = encode_dss_signature(r, s)

    def run() -> Result:
        try:
            key.verify(signature, data, *scheme)
        except (InvalidSignature, ValueError):
            return {"valid": False}
        return {"valid": True}

    return Job(run, _cost(key))


def _has_small_order(point: bytes) -> bool:
    """Return whether a point of Ed25519 has an order of at most 8: signatures of such keys prove nothing."""
    return len(point) == 32 and int.from_bytes(point, "little") & _Y_MASK in _SMALL_ORDER_Y


BLOCK = 16
CHUNK_BYTES = 256 << 10
"""Bytes that are processed in one call, which holds the interpreter's lock."""
MAX_WRAPPED_BYTES = 64 << 10
"""Maximum data of AES-KW, which the library computes block by block."""
TAG_BITS = (32, 64, 96, 104, 112, 120, 128)
MIN_GCM_IV, MAX_GCM_IV = 8, 128

_WRAP_NS_PER_BYTE = 2_000
Cryption = Callable[[bytes], bytes]


def crypt(members: Members, *, encrypting: bool) -> Job:
    """Return the job that encrypts or decrypts data. Raises CryptoProblem if it is refused."""
    name, data = members.text("algorithm"), members.data("data")
    cpu_ns = 0
    if name == "RSA-OAEP":
        process, cpu_ns = _oaep(members, encrypting)
    elif name not in _MODES:
        raise CryptoProblem("not-supported", f"{name} is not one of {', '.join([*_MODES, 'RSA-OAEP'])}")
    else:
        key = members.data("key")
        if len(key) not in (16, 24, 32):
            raise CryptoProblem("data-error", f"an AES key has {len(key)} bytes, not 16, 24 or 32")
        process = _MODES[name](members, key, encrypting)
        if name == "AES-KW":
            cpu_ns = len(data) * _WRAP_NS_PER_BYTE

    def run() -> dict[str, Any]:
        try:
            return {"data": process(data)}
        except (ValueError, InvalidTag, keywrap.InvalidUnwrap) as error:
            action = "encryption" if encrypting else "decryption"
            raise CryptoProblem("operation-error", f"{name}: the {action} failed") from error

    return Job(run, cpu_ns)


def _oaep(members: Members, encrypting: bool) -> tuple[Cryption, int]:
    algorithm, label = hash_of(members), members.data("label", b"")
    scheme = padding.OAEP(padding.MGF1(algorithm), algorithm, label or None)
    encoded = members.data("key")
    if encrypting:
        public = load_public(encoded, "RSA")
        return lambda data: public.encrypt(data, scheme), _cost(public)
    private = load_private(encoded, "RSA")
    return lambda data: private.decrypt(data, scheme), _cost(private)


def _update(context: CipherContext, data: bytes) -> bytes:
    return b"".join(
        context.update(data[start : start + CHUNK_BYTES]) for start in range(0, len(data), CHUNK_BYTES)
    )


def _block(members: Members, name: str) -> bytes:
    block = members.data(name)
    if len(block) != BLOCK:
        raise CryptoProblem("operation-error", f"{name} has {len(block)} bytes, not {BLOCK}")
    return block


def _cbc(members: Members, key: bytes, encrypting: bool) -> Cryption:
    cipher = Cipher(algorithms.AES(key), modes.CBC(_block(members, "iv")))

    def process(data: bytes) -> bytes:
        if encrypting:
            padder, encryptor = PKCS7(128).padder(), cipher.encryptor()
            padded = padder.update(data) + padder.finalize()
            return _update(encryptor, padded) + encryptor.finalize()
        unpadder, decryptor = PKCS7(128).unpadder(), cipher.decryptor()
        padded = _update(decryptor, data) + decryptor.finalize()
        return unpadder.update(padded) + unpadder.finalize()

    return process


def _ctr(members: Members, key: bytes, encrypting: bool) -> Cryption:
    counter, length = int.from_bytes(_block(members, "counter"), "big"), members.number("length")
    if not 1 <= length <= 128:
        raise CryptoProblem("operation-error", f"the counter has {length} bits, not 1 to 128")
    period = 1 << length
    before_wrap = (period - counter % period) * BLOCK

    def process(data: bytes) -> bytes:
        if len(data) > period * BLOCK:
            raise CryptoProblem("operation-error", f"the data is too long for a counter of {length} bits")
        parts = [(counter, data[:before_wrap]), (counter - counter % period, data[before_wrap:])]
        result = b""
        for start, part in parts:
            context = Cipher(algorithms.AES(key), modes.CTR(start.to_bytes(BLOCK, "big"))).encryptor()
            result += _update(context, part) + context.finalize()
        return result

    return process


def _gcm(members: Members, key: bytes, encrypting: bool) -> Cryption:
    iv, tag_bits = members.data("iv"), members.number("tag_length", 128)
    extra = members.data("additional_data", b"")
    if not MIN_GCM_IV <= len(iv) <= MAX_GCM_IV:
        raise CryptoProblem("operation-error", f"iv has {len(iv)} bytes, not {MIN_GCM_IV} to {MAX_GCM_IV}")
    if tag_bits not in TAG_BITS:
        raise CryptoProblem("operation-error", f"the tag has {tag_bits} bits, not one of {TAG_BITS}")
    size = tag_bits // 8

    def process(data: bytes) -> bytes:
        if encrypting:
            encryptor = Cipher(algorithms.AES(key), modes.GCM(iv)).encryptor()
            encryptor.authenticate_additional_data(extra)
            return _update(encryptor, data) + encryptor.finalize() + encryptor.tag[:size]
        if len(data) < size:
            raise CryptoProblem("operation-error", "the data is shorter than its tag")
        cipher = Cipher(algorithms.AES(key), modes.GCM(iv, data[-size:], min_tag_length=size))
        decryptor = cipher.decryptor()
        decryptor.authenticate_additional_data(extra)
        return _update(decryptor, data[:-size]) + decryptor.finalize()

    return process


def _kw(members: Members, key: bytes, encrypting: bool) -> Cryption:
    def process(data: bytes) -> bytes:
        if len(data) > MAX_WRAPPED_BYTES:
            raise CryptoProblem("too-large", f"the data has {len(data)} bytes, more than {MAX_WRAPPED_BYTES}")
        wrap = keywrap.aes_key_wrap if encrypting else keywrap.aes_key_unwrap
        return wrap(key, data)

    return process


_MODES: dict[str, Callable[[Members, bytes, bool], Cryption]] = {
    "AES-CBC": _cbc,
    "AES-CTR": _ctr,
    "AES-GCM": _gcm,
    "AES-KW": _kw,
}


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


OPERATIONS: dict[str, Callable[[Members], Job]] = {
    "/v1/digest": digest,
    "/v1/hmac": hmac,
    "/v1/sign": sign,
    "/v1/verify": verify,
    "/v1/encrypt": partial(crypt, encrypting=True),
    "/v1/decrypt": partial(crypt, encrypting=False),
    "/v1/derive": derive,
    "/v1/generate": generate,
    "/v1/import": import_key,
    "/v1/export": export_key,
    "/v1/password/hash": hash_password,
    "/v1/password/verify": verify_password,
}
BULK = frozenset({"/v1/digest", "/v1/hmac", "/v1/sign", "/v1/verify", "/v1/encrypt", "/v1/decrypt"})
"""Operations that take more than `door.QUICK_BYTES`."""
