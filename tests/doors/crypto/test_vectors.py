"""Hashes, ciphers and key derivation of the crypto Door, with test vectors of their standards."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.doors.crypto.crypto_door import BLOCK, KEY, Data, Post, raw

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
