"""Hashes, key derivation and encryption with parameters of any kind: they have the results of Node.js."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doors.crypto.job import CryptoProblem, Members, encode
from doors.crypto.operations import DIGESTS, OPERATIONS
from tests.doors.crypto.crypto_door import encoded
from tests.support.examples import examples

Call = tuple[str, dict[str, Any]]
Compute = Callable[[Call], bytes | None]
HASHES = st.sampled_from(("SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"))
TEXTS = st.one_of(st.binary(max_size=70), st.integers(0, 300).map(bytes))
KEYS = st.sampled_from((16, 24, 32)).flatmap(lambda size: st.binary(min_size=size, max_size=size))
BLOCKS = st.one_of(
    st.binary(min_size=16, max_size=16), st.integers(1, 300).map(lambda n: (-n % (1 << 128)).to_bytes(16))
)


def calls(path: str, algorithm: str = "", **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    fixed = {"algorithm": st.just(algorithm)} if algorithm else {}
    return st.tuples(st.just(path), st.fixed_dictionaries({**fixed, **members}))


DERIVED = {"key": TEXTS, "salt": TEXTS, "length": st.integers(1, 300)}
DATA = {"key": KEYS, "data": TEXTS}
CIPHERS = (
    calls("encrypt", "AES-CBC", iv=BLOCKS, **DATA),
    calls("encrypt", "AES-CTR", counter=BLOCKS, length=st.integers(1, 128), **DATA),
    calls(
        "encrypt",
        "AES-GCM",
        iv=st.binary(min_size=8, max_size=64),
        additional_data=TEXTS,
        tag_length=st.sampled_from((32, 64, 96, 104, 112, 120, 128)),
        **DATA,
    ),
    calls(
        "encrypt",
        "AES-KW",
        **{**DATA, "data": st.integers(2, 9).flatmap(lambda n: st.binary(min_size=8 * n, max_size=8 * n))},
    ),
)
OTHERS = (
    calls("digest", hash=st.sampled_from([*DIGESTS]), data=TEXTS),
    calls("hmac", hash=st.sampled_from([*DIGESTS]), key=TEXTS, data=TEXTS),
    calls("derive", "PBKDF2", hash=HASHES, iterations=st.integers(1, 30), **DERIVED),
    calls("derive", "HKDF", hash=HASHES, info=TEXTS, **DERIVED),
    calls(
        "derive",
        "scrypt",
        n=st.sampled_from((2, 16, 128)),
        r=st.integers(1, 9),
        p=st.integers(1, 5),
        **DERIVED,
    ),
)


@pytest.fixture(scope="module")
def by_node() -> Iterator[Compute]:
    """Compute an operation with Node.js; None is an error."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    command = [program, str(Path(__file__).with_name("operations.js"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        write, read = process.stdin, process.stdout

        def compute(call: Call) -> bytes | None:
            texts = {name: value.hex() for name, value in call[1].items() if isinstance(value, bytes)}
            others = {name: value for name, value in call[1].items() if name not in texts}
            write.write(json.dumps([call[0], others, texts]).encode() + b"\n")
            write.flush()
            answer = json.loads(read.readline())
            return None if answer is None else bytes.fromhex(answer)

        yield compute
        write.close()


def by_door(call: Call) -> bytes | None:
    path, members = call
    try:
        job = OPERATIONS[f"/v1/{path}"](Members(json.dumps(members, default=encoded).encode()))
        return base64.b64decode(json.loads(encode(job.run()))["data"])
    except CryptoProblem:
        return None


@settings(max_examples=examples(300), deadline=None)
@given(call=st.one_of(*CIPHERS, *OTHERS))
def test_operation_has_the_result_of_node(by_node: Compute, call: Call) -> None:
    expected = by_node(call)
    assert by_door(call) == expected
    if call[0] == "encrypt" and expected is not None:
        assert by_door(("decrypt", {**call[1], "data": expected})) == call[1]["data"]
