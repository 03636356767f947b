"""Encryption: AES-CTR, AES-CBC, AES-GCM, AES-KW and RSA-OAEP."""

from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import keywrap
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from doors.crypto.hashes import hash_of
from doors.crypto.job import Job, Members
from doors.crypto.keys import load_private, load_public
from doors.crypto.problem import CryptoProblem
from doors.crypto.signatures import rsa_ns

BLOCK = 16
CHUNK_BYTES = 256 << 10
"""Bytes that are processed in one call, which holds the interpreter's lock."""
MAX_WRAPPED_BYTES = 64 << 10
"""Maximum data of AES-KW, which the library computes block by block."""
TAG_BITS = (32, 64, 96, 104, 112, 120, 128)
MIN_GCM_IV, MAX_GCM_IV = 8, 128

_WRAP_NS_PER_BYTE = 2_000
Cryption = Callable[[bytes], bytes]


def encrypt(members: Members) -> Job:
    """Return the job that encrypts data. Raises CryptoProblem if it is refused."""
    return _job(members, encrypting=True)


def decrypt(members: Members) -> Job:
    """Return the job that decrypts data. Raises CryptoProblem if it is refused."""
    return _job(members, encrypting=False)


def _job(members: Members, *, encrypting: bool) -> Job:
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
        return lambda data: public.encrypt(data, scheme), rsa_ns(public)
    private = load_private(encoded, "RSA")
    return lambda data: private.decrypt(data, scheme), rsa_ns(private)


def _update(context: CipherContext, data: bytes) -> bytes:
    if len(data) <= CHUNK_BYTES:
        return context.update(data)
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
        return b"".join(_from_counter(key, start, part) for start, part in parts if part)

    return process


def _from_counter(key: bytes, counter: int, data: bytes) -> bytes:
    context = Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(BLOCK, "big"))).encryptor()
    return _update(context, data) + context.finalize()


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
