"""`crypto.subtle` and `password` in the js lane, in dev and deploy mode; `crypto.js` has the checks."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from doors.crypto.door import CryptoDoor
from engine.artifact import ComponentArtifact
from engine.door import DOMAIN, DoorContext
from engine.manifest.model import Resource
from engine.wasm.execution.runner import Runner
from engine.wasm.outbound.door_calls import DoorBinding
from tests.lanes.js.npm import node_modules
from tests.lanes.js.programs import Programs
from tests.lanes.js.sources import MODES, Sources
from tests.lanes.workdir import compiles_fast
from tests.support.guest_client import Answer, Client

pytestmark = pytest.mark.slow
SIGNATURES = ("ECDSAP-256", "ECDSAP-521", "Ed25519", "RSASSA-PKCS1-v1_5", "RSA-PSS")
VALID = [True, True, True, True, True, False]
VALUES: dict[str, Any] = {
    "signatures": dict.fromkeys(
        ("ECDSAP-256", "ECDSAP-521", "Ed25519", "RSASSA-PKCS1-v1_5", "RSA-PSS"), VALID
    ),
    "generated-pair": [
        "public",
        True,
        ["encrypt"],
        "private",
        False,
        ["unwrapKey"],
        "RSA-OAEP",
        2048,
        "010001",
        {"name": "SHA-256"},
        "InvalidAccessError",
    ],
    "ciphers": {
        "AES-CBC": [16, "text"],
        "AES-CTR": [4, "text"],
        "AES-GCM": [20, "text"],
        "AES-KW": True,
        "RSA-OAEP": "text",
    },
    "large-data": [(2 << 20) + 16, 2 << 20, True],
    "too-large-data": "OperationError",
    "derivations": [
        "183eabd458abf308",
        "7168f6d29655ca49",
        True,
        {"name": "HMAC", "hash": {"name": "SHA-256"}, "length": 256},
    ],
    "hmac": [
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        True,
        False,
        {"kty": "oct", "k": "SmVmZQ", "alg": "HS256", "key_ops": ["sign", "verify"], "ext": True},
    ],
    "digest": "a9993e364706816aba3e25717850c26c9cd0d89d",
    "errors": {
        "unknown algorithm": "NotSupportedError",
        "other operation": "NotSupportedError",
        "missing parameter": "TypeError",
        "no key": "TypeError",
        "no data": "TypeError",
        "too few arguments": "TypeError",
        "other algorithm": "InvalidAccessError",
        "missing usage": "InvalidAccessError",
        "unknown usage": "TypeError",
        "no usages": "SyntaxError",
        "usage of another algorithm": "SyntaxError",
        "key length": "OperationError",
        "tag length": "OperationError",
        "broken key": "DataError",
        "broken RSA key": "DataError",
        "unknown curve": "NotSupportedError",
        "unknown format": "TypeError",
        "format of another key": "NotSupportedError",
        "format of another type": "InvalidAccessError",
        "JWK type": "DataError",
        "JWK curve": "DataError",
        "JWK point": "DataError",
        "JWK algorithm": "DataError",
        "JWK use": "DataError",
        "JWK operations": "DataError",
        "JWK not extractable": "DataError",
        "JWK usage": "SyntaxError",
        "bytes as JWK": "TypeError",
        "JWK as bytes": "TypeError",
        "extractable PBKDF2": "SyntaxError",
        "PBKDF2 length": "OperationError",
        "PBKDF2 with a billion rounds": "OperationError",
        "RSA with 16,384 bits": "OperationError",
        "constructor": "TypeError",
    },
    "random-values": ["TypeMismatchError", "QuotaExceededError", True, True, None, 22],
    "classes": [True, "[object CryptoKey]", True, True, [], "string", 4],
    "password": ["$argon2id$v=19$m=19456,t=2,p=1$", True, False, "Error", "TypeError", False],
    "pbkdf2-1000000": 32,
    "replaced-functions": [False, [], False, False, True, ["InvalidAccessError"] * 4],
    "random-bits": True,
}
JOSE = """\
import { SignJWT, createLocalJWKSet, exportJWK, generateKeyPair, jwtVerify } from 'jose';

const atLoad = crypto.subtle.generateKey('Ed25519', false, ['sign']);

async function check(alg) {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const keys = createLocalJWKSet({ keys: [{ ...await exportJWK(publicKey), alg, use: 'sig', kid: alg }] });
  const header = { alg, kid: alg };
  const signed = (expires) =>
    new SignJWT({ role: 'admin' }).setProtectedHeader(header).setExpirationTime(expires).sign(privateKey);
  const token = await signed('1h'), [head, body, signature] = token.split('.');
  const forged = [head, body, signature.split('').reverse().join('')].join('.');
  const code = (text) => jwtVerify(text, keys).then(() => '', (error) => error.code);
  const { payload } = await jwtVerify(token, keys);
  return [payload.role, await code(forged), await code(await signed(1))];
}

export default {
  async fetch() {
    const { privateKey } = await atLoad;
    const checks = ['RS256', 'ES256', 'EdDSA', 'PS256'].map(check);
    return Response.json([privateKey.type, ...await Promise.all(checks)]);
  },
};
"""
STORED = ("/stored-functions", "/stored-functions?again")
ENDPOINT = {"SVC_CRYPTO_ENDPOINT": f"http://crypto.{DOMAIN}"}


async def answers_with_crypto(
    cache: Path,
    resource: Resource,
    artifact: ComponentArtifact,
    environment: Mapping[str, str],
    targets: list[str],
) -> dict[str, Answer]:
    """Return the response to each target of a guest with the crypto Door."""
    door, runner = CryptoDoor(), Runner(cache)
    binding = DoorBinding(door.open(DoorContext("test", cache, lambda entry: None)), door.max_body)
    try:
        guest = await runner.guest(
            resource,
            artifact,
            {**ENDPOINT, **environment},
            fast=compiles_fast(artifact),
            report=lambda line: None,
            doors={"crypto": binding},
        )
        return {target: await Client().call(guest, target, "GET") for target in targets}
    finally:
        await runner.aclose()
        await binding.door.aclose()


@pytest.fixture(scope="module")
def answers(programs: Programs) -> dict[str, dict[str, Answer]]:
    targets = [*(f"/{name}" for name in VALUES), *STORED]
    return {
        mode: asyncio.run(
            answers_with_crypto(
                programs.cache,
                programs.resource,
                programs.artifact("crypto", mode),
                {"PROGRAM": "crypto"},
                targets,
            )
        )
        for mode in MODES
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_crypto_has_the_standard_value(answers: dict[str, dict[str, Answer]], mode: str, name: str) -> None:
    answer = answers[mode][f"/{name}"]
    assert answer.status == 200, answer
    assert json.loads(answer.body) == VALUES[name]


@pytest.mark.parametrize("mode", MODES)
def test_random_functions_stored_at_load_differ_between_requests(
    answers: dict[str, dict[str, Answer]], mode: str
) -> None:
    first, second = (json.loads(answers[mode][target].body) for target in STORED)
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("mode", MODES)
def test_time_of_the_host_is_compute_time_of_the_request(
    answers: dict[str, dict[str, Answer]], mode: str
) -> None:
    report = answers[mode]["/pbkdf2-1000000"].report
    assert 20_000_000 < report.compute_ns < report.wall_ns


def test_jose_verifies_tokens_and_a_key_is_generated_at_load(sources: Sources) -> None:
    sources.write("index.js", JOSE)
    (sources.workdir / "node_modules").symlink_to(
        node_modules(sources.cache, "jose@6.2.17"), target_is_directory=True
    )
    answers = answers_with_crypto(sources.cache, sources.resource, sources.build("deploy"), {}, ["/"])
    answer = asyncio.run(answers)["/"]
    assert answer.status == 200, answer
    expected = ["admin", "ERR_JWS_SIGNATURE_VERIFICATION_FAILED", "ERR_JWT_EXPIRED"]
    assert json.loads(answer.body) == ["private", *[expected] * 4]
