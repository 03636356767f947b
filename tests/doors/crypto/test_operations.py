"""Keys, signatures and invalid input of the crypto Door."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

from tests.doors.crypto.crypto_door import BLOCK, KEY, Data, Post, raw, unpadded, url

ES256_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
ES256_TOKEN = (
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290"
    "Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
ED25519_PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
ED25519_PRIVATE = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
ED25519_SIGNATURE = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe"
    "24655141438e7a100b"
)


@pytest.mark.parametrize(
    ("path", "members", "code"),
    [
        (
            "decrypt",
            {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "data": bytes(32)},
            "operation-error",
        ),
        (
            "decrypt",
            {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "data": b"short"},
            "operation-error",
        ),
        ("encrypt", {"algorithm": "AES-GCM", "key": KEY, "iv": b"", "data": b""}, "operation-error"),
        (
            "encrypt",
            {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "data": b"", "tag_length": 8},
            "operation-error",
        ),
        ("decrypt", {"algorithm": "AES-CBC", "key": KEY, "iv": BLOCK, "data": bytes(16)}, "operation-error"),
        ("decrypt", {"algorithm": "AES-CBC", "key": KEY, "iv": BLOCK, "data": bytes(5)}, "operation-error"),
        ("encrypt", {"algorithm": "AES-CBC", "key": KEY, "iv": bytes(5), "data": b""}, "operation-error"),
        ("decrypt", {"algorithm": "AES-KW", "key": KEY, "data": bytes(24)}, "operation-error"),
        ("encrypt", {"algorithm": "AES-KW", "key": KEY, "data": bytes(12)}, "operation-error"),
        ("encrypt", {"algorithm": "AES-GCM", "key": bytes(5), "iv": bytes(12), "data": b""}, "data-error"),
        ("encrypt", {"algorithm": "ROT13", "data": b""}, "not-supported"),
        ("encrypt", {"algorithm": "AES-KW", "key": KEY, "data": "not base64!"}, "bad-request"),
        ("digest", {"hash": "SHA-0", "data": b""}, "not-supported"),
        ("digest", {"hash": 7, "data": b""}, "bad-request"),
        ("derive", {"algorithm": "PBKDF1"}, "not-supported"),
        (
            "derive",
            {"algorithm": "PBKDF2", "hash": "SHA-256", "key": b"", "salt": b"", "iterations": 0, "length": 1},
            "operation-error",
        ),
        (
            "derive",
            {"algorithm": "HKDF", "hash": "SHA-256", "key": b"", "salt": b"", "info": b"", "length": 9999},
            "operation-error",
        ),
        (
            "derive",
            {"algorithm": "scrypt", "key": b"", "salt": b"", "n": 3, "r": 1, "p": 1, "length": 1},
            "operation-error",
        ),
        ("generate", {"algorithm": "EC", "curve": "P-192"}, "not-supported"),
        ("generate", {"algorithm": "RSA", "bits": 2048, "public_exponent": 4}, "operation-error"),
        ("verify", {"algorithm": "ECDSA", "key": b"broken", "data": b"", "signature": b""}, "data-error"),
        ("sign", {"algorithm": "Ed25519", "key": b"broken", "data": b""}, "data-error"),
        ("password/verify", {"password": "a", "hash": "$2b$12$abc"}, "data-error"),
        ("password/verify", {"password": "a", "hash": "$argon2id$v=19$m=8,t=1,p=1$!!$!!"}, "data-error"),
    ],
)
def test_invalid_input_is_a_problem(post: Post, path: str, members: dict[str, Any], code: str) -> None:
    status, problem = post(path, **members)
    assert (status, problem["code"]) == (400, code)


def test_ed25519_signs_and_verifies_as_in_rfc_8032(post: Post, data: Data) -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": url(raw(ED25519_PUBLIC)), "d": url(raw(ED25519_PRIVATE))}
    _, private = post("import", algorithm="Ed25519", format="jwk", key=jwk)
    assert data("sign", algorithm="Ed25519", key=private["key"], data=b"") == ED25519_SIGNATURE
    _, public = post("import", algorithm="Ed25519", format="raw", key=raw(ED25519_PUBLIC))
    members = {"algorithm": "Ed25519", "key": public["key"], "data": b""}
    assert post("verify", **members, signature=raw(ED25519_SIGNATURE))[1] == {"valid": True}
    assert post("verify", **members, signature=bytes(64))[1] == {"valid": False}
    _, exported = post("export", algorithm="Ed25519", format="jwk", type="private", key=private["key"])
    assert exported["key"] == jwk


@pytest.mark.parametrize(
    "point",
    [
        "01" + "00" * 31,
        "00" * 31 + "80",
        "ec" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ],
)
def test_ed25519_point_of_small_order_makes_signatures_invalid(post: Post, point: str) -> None:
    _, small = post("import", algorithm="Ed25519", format="raw", key=raw(point))
    _, public = post("import", algorithm="Ed25519", format="raw", key=raw(ED25519_PUBLIC))
    for key, signature in ((small["key"], raw(point) + bytes(32)), (public["key"], raw(point) + bytes(32))):
        members = {"algorithm": "Ed25519", "key": key, "data": b"", "signature": signature}
        assert post("verify", **members)[1] == {"valid": False}


def test_token_of_rfc_7515_is_verified(post: Post) -> None:
    _, imported = post("import", algorithm="EC", curve="P-256", format="jwk", key=ES256_KEY)
    signed, _, signature = ES256_TOKEN.rpartition(".")
    members = {"algorithm": "ECDSA", "hash": "SHA-256", "key": imported["key"]}
    right = unpadded(signature)
    for text, value, valid in (
        (signed, right, True),
        (signed + "x", right, False),
        (signed, bytes(64), False),
        (signed, b"\xff" * 64, False),
        (signed, right[:-1], False),
        (signed, right + b"\0", False),
        (signed, b"", False),
    ):
        _, result = post("verify", **members, data=text.encode(), signature=value)
        assert result == {"valid": valid}


def test_ec_key_is_converted_between_all_formats(post: Post) -> None:
    _, spki = post("import", algorithm="EC", curve="P-256", format="jwk", key=ES256_KEY)
    assert spki["type"] == "public"
    members = {"algorithm": "EC", "type": "public", "key": spki["key"]}
    assert post("export", **members, format="jwk")[1]["key"] == ES256_KEY
    point = post("export", **members, format="raw")[1]["key"]
    assert base64.b64decode(point) == b"\4" + unpadded(ES256_KEY["x"]) + unpadded(ES256_KEY["y"])
    compressed = b"\3" + unpadded(ES256_KEY["x"])
    for form, key in (("spki", spki["key"]), ("raw", point), ("raw", compressed)):
        assert post("import", algorithm="EC", curve="P-256", format=form, key=key)[1] == spki
    status, problem = post("import", algorithm="EC", curve="P-384", format="spki", key=spki["key"])
    assert (status, problem["code"]) == (400, "data-error")


@pytest.mark.parametrize(
    "changes",
    [
        {"x": "AAAA"},
        {"x": url(bytes(32))},
        {"y": None},
        {"x": "+" * 43},
        {"d": url(bytes(32))},
        {"d": url(b"\1" * 32)},
    ],
)
def test_invalid_ec_jwk_is_a_data_error(post: Post, changes: dict[str, Any]) -> None:
    status, problem = post(
        "import", algorithm="EC", curve="P-256", format="jwk", key={**ES256_KEY, **changes}
    )
    assert (status, problem["code"]) == (400, "data-error")


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.mark.parametrize(
    ("algorithm", "curve", "key"),
    [
        ("EC", "P-256", {**ES256_KEY, "kty": "OKP"}),
        ("EC", "P-256", {**ES256_KEY, "crv": "P-384"}),
        ("EC", "P-256", {name: ES256_KEY[name] for name in ("kty", "x", "y")}),
        ("Ed25519", "", {"kty": "EC", "crv": "Ed25519", "x": url(raw(ED25519_PUBLIC))}),
        ("X25519", "", {"kty": "OKP", "crv": "Ed25519", "x": url(raw(ED25519_PUBLIC))}),
        ("RSA", "", {"kty": "oct", "n": url(3 << 1022 | 1), "e": url(65537)}),
    ],
)
def test_jwk_of_another_type_or_curve_is_a_data_error(
    post: Post, algorithm: str, curve: str, key: dict[str, Any]
) -> None:
    status, problem = post("import", algorithm=algorithm, curve=curve, format="jwk", key=key)
    assert (status, problem["code"]) == (400, "data-error")


def jwk_of(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers, public = key.private_numbers(), key.public_key().public_numbers()
    parts = {"n": public.n, "e": public.e, "d": numbers.d, "p": numbers.p, "q": numbers.q}
    parts |= {"dp": numbers.dmp1, "dq": numbers.dmq1, "qi": numbers.iqmp}
    return {"kty": "RSA", **{name: url(part) for name, part in parts.items()}}


def test_rsa_key_is_converted_between_all_formats(post: Post, rsa_key: rsa.RSAPrivateKey) -> None:
    pkcs8 = rsa_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    _, private = post("import", algorithm="RSA", format="jwk", key=jwk_of(rsa_key))
    assert base64.b64decode(private["key"]) == pkcs8
    assert (private["bits"], private["public_exponent"]) == (2048, "AQAB")
    _, exported = post("export", algorithm="RSA", type="private", format="jwk", key=pkcs8)
    assert exported["key"] == jwk_of(rsa_key)
    public = {name: jwk_of(rsa_key)[name] for name in ("kty", "n", "e")}
    _, imported = post("import", algorithm="RSA", format="jwk", key=public)
    spki = rsa_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert base64.b64decode(imported["key"]) == spki


def test_rsa_signatures_are_those_of_the_library(post: Post, data: Data, rsa_key: rsa.RSAPrivateKey) -> None:
    pkcs8 = rsa_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    spki = rsa_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    members = {"algorithm": "RSASSA-PKCS1-v1_5", "hash": "SHA-256", "data": b"text"}
    signature = data("sign", **members, key=pkcs8)
    assert raw(signature) == rsa_key.sign(b"text", padding.PKCS1v15(), SHA256())
    assert post("verify", **members, key=spki, signature=raw(signature))[1] == {"valid": True}
    assert post("verify", **members, key=spki, signature=b"")[1] == {"valid": False}
    pss = {"algorithm": "RSA-PSS", "hash": "SHA-256", "data": b"text", "salt_length": 32}
    signed = raw(data("sign", **pss, key=pkcs8))
    rsa_key.public_key().verify(signed, b"text", padding.PSS(padding.MGF1(SHA256()), 32), SHA256())
    assert post("verify", **{**pss, "salt_length": 20}, key=spki, signature=signed)[1] == {"valid": False}
    status, problem = post("sign", **{**pss, "salt_length": 500}, key=pkcs8)
    assert (status, problem["code"]) == (400, "operation-error")
    oaep = {"algorithm": "RSA-OAEP", "hash": "SHA-1", "label": b"label"}
    encrypted = raw(data("encrypt", **oaep, key=spki, data=b"text"))
    assert raw(data("decrypt", **oaep, key=pkcs8, data=encrypted)) == b"text"
    for wrong in ({"label": b"other"}, {"data": b"short"}):
        status, problem = post("decrypt", **{**oaep, "key": pkcs8, "data": encrypted, **wrong})
        assert (status, problem["code"]) == (400, "operation-error")


@pytest.mark.parametrize("name", ["p", "q", "d", "dp", "dq", "qi", "e", "n"])
def test_inconsistent_rsa_key_is_a_data_error(post: Post, rsa_key: rsa.RSAPrivateKey, name: str) -> None:
    jwk = jwk_of(rsa_key)
    changed = int.from_bytes(unpadded(jwk[name]), "big") + 2
    status, problem = post("import", algorithm="RSA", format="jwk", key={**jwk, name: url(changed)})
    assert (status, problem["code"]) == (400, "data-error")


@pytest.mark.parametrize("key", [b"", b"0", b"0\x82", bytes(64), b"\x30" * 64, b"\x30\xff" * 64])
def test_key_that_is_not_der_is_a_data_error(post: Post, key: bytes) -> None:
    for form in ("spki", "pkcs8"):
        status, problem = post("import", algorithm="RSA", format=form, key=key)
        assert (status, problem["code"]) == (400, "data-error")


def test_key_of_another_algorithm_is_a_data_error(post: Post, rsa_key: rsa.RSAPrivateKey) -> None:
    pkcs8 = rsa_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    for members in ({"algorithm": "EC", "curve": "P-256"}, {"algorithm": "Ed25519"}):
        status, problem = post("import", **members, format="pkcs8", key=pkcs8)
        assert (status, problem["code"]) == (400, "data-error")
    other = ec.generate_private_key(ec.SECP256K1()).private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    )
    status, problem = post("import", algorithm="EC", curve="P-256", format="pkcs8", key=other)
    assert (status, problem["code"]) == (400, "data-error")


@pytest.mark.parametrize(
    "members",
    [
        {"algorithm": "EC", "curve": "P-256"},
        {"algorithm": "EC", "curve": "P-384"},
        {"algorithm": "EC", "curve": "P-521"},
        {"algorithm": "X25519"},
    ],
)
def test_two_generated_keys_agree_on_a_secret(post: Post, data: Data, members: dict[str, Any]) -> None:
    (_, one), (_, other) = post("generate", **members), post("generate", **members)
    name = "ECDH" if members["algorithm"] == "EC" else "X25519"
    secrets = {
        data("derive", algorithm=name, key=private["private"], public=public["public"])
        for private, public in ((one, other), (other, one))
    }
    assert len(secrets) == 1


def test_x25519_key_of_small_order_is_an_operation_error(post: Post) -> None:
    _, pair = post("generate", algorithm="X25519")
    _, zero = post("import", algorithm="X25519", format="raw", key=bytes(32))
    status, problem = post("derive", algorithm="X25519", key=pair["private"], public=zero["key"])
    assert (status, problem["code"]) == (400, "operation-error")


def test_generated_rsa_key_has_its_size(post: Post) -> None:
    _, pair = post("generate", algorithm="RSA", bits=2048, public_exponent=3)
    key = load_der_private_key(base64.b64decode(pair["private"]), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert (key.key_size, key.public_key().public_numbers().e) == (2048, 3)


def test_password_hash_is_verified(post: Post) -> None:
    _, hashed = post("password/hash", password="pässword")
    assert hashed["hash"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert post("password/verify", password="pässword", **hashed)[1] == {"valid": True, "rehash": False}
    assert post("password/verify", password="password", **hashed)[1] == {"valid": False, "rehash": False}
    weak = "$argon2i$v=19$m=16,t=2,p=1$MTIzNDU2Nzg$q2r4nE/9eAbLwUzpOuKDtw"
    assert post("password/verify", password="password", hash=weak)[0] == 200
