"""Estimated CPU time of operations against what they take, over the corners of their parameters."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from doors.crypto.door import QUICK_NS
from doors.crypto.job import CryptoProblem, Job, Members
from doors.crypto.keys import CURVES, MAX_RSA_BITS, pkcs8, spki
from doors.crypto.operations import DIGESTS, OPERATIONS
from tests.doors.crypto.crypto_door import encoded

LONG = 46_000
"""Bytes of a member that nearly fills a request that is answered on the event loop."""
MEASURED_NS = 100_000_000
"""Operations with a longer estimate are not measured: they are refused, or ended by the pool."""
RATIO = 4
FLOOR_NS = RATIO * QUICK_NS
HASHES = ("SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512")
SIZES = (1, LONG)
ARGON2 = "$argon2{kind}$v=19$m={m},t={t},p={p}${salt}${tag}"
Case = tuple[str, dict[str, Any]]


def combined(path: str, fixed: dict[str, Any], **values: Any) -> Iterator[Case]:
    """Every combination of the values of parameters whose bytes fit into a request."""
    for chosen in product(*values.values()):
        members = fixed | dict(zip(values, chosen, strict=True))
        if sum(len(value) for value in members.values() if isinstance(value, bytes)) < LONG + 2_000:
            yield path, members


def derivations() -> Iterator[Case]:
    texts = [bytes(size) for size in SIZES]
    for name in HASHES:
        hashed = {"hash": name}
        yield from combined(
            "derive",
            hashed | {"algorithm": "PBKDF2"},
            key=texts,
            salt=texts,
            length=(1, 1_000, 65_536),
            iterations=(1, 20, 1_000, 100_000),
        )
        yield from combined(
            "derive", hashed | {"algorithm": "HKDF"}, key=texts, salt=texts, info=texts, length=(1, 5_000)
        )
    yield from combined(
        "derive",
        {"algorithm": "scrypt"},
        key=texts,
        salt=texts,
        length=(1, 65_536),
        n=(2, 128, 16_384),
        r=(1, 8, 512),
        p=(1, 16, 4_000),
    )


def passwords() -> Iterator[Case]:
    for kind, m, t, p, salt, tag in product(
        ("i", "d", "id"), (32, 1_024, 65_536), (1, 50, 1_500), (1, 4), SIZES, SIZES
    ):
        if salt + tag < LONG + 2_000:
            texts = {
                name: encoded(bytes(max(16, size) * 3 // 4)).rstrip("=")
                for name, size in (("salt", salt), ("tag", tag))
            }
            hashed = ARGON2.format(kind=kind, m=m, t=t, p=p, **texts)
            yield "password/verify", {"password": "x" * 4096, "hash": hashed}
    yield "password/hash", {"password": "x" * 4096}


def composite_rsa_key() -> rsa.RSAPrivateKey:
    """A key of the maximum size whose factors are not prime, so the library computes each result twice."""
    p, e = (3 << (MAX_RSA_BITS // 2 - 2)) + 1, 65_537
    q = p + 2
    d = pow(e, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(e, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def keys() -> Iterator[Case]:
    pairs = [rsa.generate_private_key(65_537, bits) for bits in (1_024, 2_048, 4_096)]
    data = [bytes(size) for size in (1, 30_000)]
    for key in (*pairs, composite_rsa_key()):
        size = key.key_size // 8
        private, public = {"key": pkcs8(key)}, {"key": spki(key.public_key())}
        modulus = key.public_key().public_numbers().n
        largest = {"key": spki(rsa.RSAPublicNumbers((1 << 63) + 1, modulus).public_key())}
        for name, hashed in product(("RSASSA-PKCS1-v1_5", "RSA-PSS"), HASHES[::4]):
            fixed = {"algorithm": name, "hash": hashed}
            yield from combined("sign", fixed | private, data=data, salt_length=(0, size // 4))
            for one in (public, largest):
                signatures = [b"", bytes(size - 1) + b"1", bytes(10_000)]
                yield from combined(
                    "verify", fixed | one, data=data, salt_length=(0, size // 4), signature=signatures
                )
        oaep = {"algorithm": "RSA-OAEP", "hash": "SHA-1"}
        for one in (public, largest):
            yield from combined("encrypt", oaep | one, data=[b"1"], label=data)
        yield from combined("decrypt", oaep | private, data=[bytes(size - 1) + b"1"], label=data)
        yield from imported("RSA", "", private["key"], public["key"])
    for name, curve in CURVES.items():
        key, size = ec.generate_private_key(curve), (curve.key_size + 7) // 8
        private, public = pkcs8(key), spki(key.public_key())
        fixed = {"algorithm": "ECDSA", "hash": "SHA-512"}
        yield from combined("sign", fixed | {"key": private}, data=data)
        yield from combined("verify", fixed | {"key": public}, data=data, signature=[b"1" * 2 * size])
        yield "derive", {"algorithm": "ECDH", "key": private, "public": public}
        yield "generate", {"algorithm": "EC", "curve": name}
        yield from imported("EC", name, private, public)
    signing, agreeing = ed25519.Ed25519PrivateKey.generate(), x25519.X25519PrivateKey.generate()
    private, public = pkcs8(signing), spki(signing.public_key())
    yield from combined("sign", {"algorithm": "Ed25519", "key": private}, data=data)
    verified = {"algorithm": "Ed25519", "key": public, "signature": signing.sign(b"")}
    yield from combined("verify", verified, data=data)
    yield "derive", {"algorithm": "X25519", "key": pkcs8(agreeing), "public": spki(agreeing.public_key())}
    for name in ("Ed25519", "X25519"):
        yield "generate", {"algorithm": name}
    yield from imported("Ed25519", "", private, public)


def imported(family: str, curve: str, private: bytes, public: bytes) -> Iterator[Case]:
    for form, kind, key in (("pkcs8", "private", private), ("spki", "public", public)):
        yield "import", {"algorithm": family, "curve": curve, "format": form, "key": key}
        exported = {"algorithm": family, "format": "jwk", "type": kind, "key": key}
        yield "export", exported
        jwk = prepared("export", exported).run()["key"]
        yield "import", {"algorithm": family, "curve": curve, "format": "jwk", "key": jwk}


def ciphers() -> Iterator[Case]:
    for size, data in product((16, 32), (b"", bytes(LONG - 6))):
        key = {"key": bytes(size), "data": data}
        for path in ("encrypt", "decrypt"):
            yield path, key | {"algorithm": "AES-CBC", "iv": bytes(16)}
            yield path, key | {"algorithm": "AES-KW"}
            for length in (1, 128):
                yield path, key | {"algorithm": "AES-CTR", "counter": b"\xff" * 16, "length": length}
            for iv, extra in product((8, 128), (b"", bytes(LONG - len(data) - 6))):
                yield path, key | {"algorithm": "AES-GCM", "iv": bytes(iv), "additional_data": extra}
    for name in DIGESTS:
        yield "digest", {"hash": name, "data": bytes(LONG)}
        yield from combined("hmac", {"hash": name}, key=[b"", bytes(LONG)], data=[b"", bytes(LONG)])


def prepared(path: str, members: dict[str, Any]) -> Job:
    body = json.dumps(members, default=encoded).encode()
    return OPERATIONS[f"/v1/{path}"](Members(body))


def measured(path: str, members: dict[str, Any]) -> tuple[int, int]:
    """Return the estimate and the CPU time in nanoseconds. The time is 0 for a long estimate."""
    began = time.process_time_ns()
    job = prepared(path, members)
    if job.cpu_ns > MEASURED_NS:
        return job.cpu_ns, 0
    with contextlib.suppress(CryptoProblem):
        job.run()
    return job.cpu_ns, time.process_time_ns() - began


def is_short(path: str, members: dict[str, Any]) -> bool:
    """Return whether an operation takes little more than its estimate, in one of several tries."""

    def fits() -> bool:
        estimate, taken = measured(path, members)
        return taken <= RATIO * estimate + FLOOR_NS

    return any(fits() for _ in range(5))


@pytest.mark.slow
@pytest.mark.parametrize("cases", [derivations, passwords, keys, ciphers])
def test_estimate_covers_the_cpu_time_at_the_corners_of_the_parameters(
    cases: Callable[[], Iterator[Case]],
) -> None:
    def shown(members: dict[str, Any]) -> dict[str, Any]:
        return {name: value if isinstance(value, int) else value[:60] for name, value in members.items()}

    assert [(path, shown(members)) for path, members in cases() if not is_short(path, members)] == []


@pytest.mark.parametrize("name", ["scrypt", "Argon2", "PBKDF2"])
def test_estimate_of_usual_parameters_is_not_far_above_the_cpu_time(name: str) -> None:
    derived = {"key": b"password", "salt": bytes(16), "length": 64}
    path, members = {
        "scrypt": ("derive", {**derived, "algorithm": "scrypt", "n": 16_384, "r": 8, "p": 1}),
        "PBKDF2": ("derive", {**derived, "algorithm": "PBKDF2", "hash": "SHA-512", "iterations": 100_000}),
        "Argon2": ("password/hash", {"password": "password"}),
    }[name]
    estimate, taken = measured(path, members)
    assert estimate < 10 * taken
