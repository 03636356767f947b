"""Operations of the crypto Door, with test vectors of their standards."""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

from tests.doors.crypto.conftest import Post

Data = Callable[..., str]
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
KEY, BLOCK = bytes(16), bytes(16)


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def url(data: bytes | int) -> str:
    if isinstance(data, int):
        data = data.to_bytes((data.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


VECTORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "md5": ("digest", {"hash": "MD5", "data": b""}, "d41d8cd98f00b204e9800998ecf8427e"),
    "sha-1": ("digest", {"hash": "SHA-1", "data": b"abc"}, "a9993e364706816aba3e25717850c26c9cd0d89d"),
    "hmac": (
        "hmac",
        {"hash": "SHA-256", "key": b"Jefe", "data": b"what do ya want for nothing?"},
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    "pbkdf2": (
        "derive",
        {
            "algorithm": "PBKDF2",
            "hash": "SHA-256",
            "key": b"passwd",
            "salt": b"salt",
            "iterations": 1,
            "length": 64,
        },
        "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71b845b1"
        "e30bd509112041d3a19783",
    ),
    "scrypt": (
        "derive",
        {"algorithm": "scrypt", "key": b"", "salt": b"", "n": 16, "r": 1, "p": 1, "length": 64},
        "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e"
        "0d3628cf35e20c38d18906",
    ),
    "hkdf": (
        "derive",
        {
            "algorithm": "HKDF",
            "hash": "SHA-256",
            "key": raw("0b" * 22),
            "salt": raw("000102030405060708090a0b0c"),
            "info": raw("f0f1f2f3f4f5f6f7f8f9"),
            "length": 42,
        },
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    "aes-gcm": (
        "encrypt",
        {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "data": BLOCK},
        "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf",
    ),
    "aes-gcm-short-tag": (
        "encrypt",
        {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "data": BLOCK, "tag_length": 32},
        "0388dace60b6a392f328c2b971b2fe78ab6e47d4",
    ),
    "aes-ctr": (
        "encrypt",
        {
            "algorithm": "AES-CTR",
            "key": raw("2b7e151628aed2a6abf7158809cf4f3c"),
            "counter": raw("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"),
            "length": 128,
            "data": raw("6bc1bee22e409f96e93d7e117393172a"),
        },
        "874d6191b620e3261bef6864990db6ce",
    ),
    "aes-kw": (
        "encrypt",
        {
            "algorithm": "AES-KW",
            "key": raw("000102030405060708090a0b0c0d0e0f"),
            "data": raw("00112233445566778899aabbccddeeff"),
        },
        "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_operation_has_the_value_of_its_standard(data: Data, name: str) -> None:
    path, members, expected = VECTORS[name]
    assert data(path, **members) == expected


def test_aes_cbc_encrypts_with_padding_and_decrypts(data: Data) -> None:
    members = {
        "algorithm": "AES-CBC",
        "key": raw("2b7e151628aed2a6abf7158809cf4f3c"),
        "iv": raw("000102030405060708090a0b0c0d0e0f"),
    }
    text = raw("6bc1bee22e409f96e93d7e117393172a")
    encrypted = data("encrypt", **members, data=text)
    assert (encrypted[:32], len(encrypted)) == ("7649abac8119b246cee98e9b12e9197d", 64)
    assert raw(data("decrypt", **members, data=raw(encrypted))) == text


def test_aes_ctr_counter_wraps_within_its_length(data: Data) -> None:
    def block(counter: str) -> bytes:
        encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
        return encryptor.update(raw(counter))

    expected = block("ff" * 15 + "0f") + block("ff" * 15 + "00")
    members = {"algorithm": "AES-CTR", "key": KEY, "counter": raw("ff" * 15 + "0f"), "length": 4}
    assert raw(data("encrypt", **members, data=bytes(32))) == expected


def test_aes_ctr_with_more_blocks_than_its_counter_fails(post: Post) -> None:
    members = {"algorithm": "AES-CTR", "key": KEY, "counter": BLOCK, "length": 1}
    status, problem = post("encrypt", **members, data=bytes(33))
    assert (status, problem["code"]) == (400, "operation-error")


def test_bulk_data_is_encrypted_and_decrypted_in_a_thread(data: Data) -> None:
    text = bytes(range(256)) * 4096
    members = {"algorithm": "AES-GCM", "key": KEY, "iv": bytes(12), "additional_data": b"more"}
    assert raw(data("decrypt", **members, data=raw(data("encrypt", **members, data=text)))) == text


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
