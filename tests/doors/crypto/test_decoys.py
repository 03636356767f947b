"""Hashes that applications verify for names without an account."""

import re
from pathlib import Path

import pytest
from argon2 import extract_parameters

from tests.doors.crypto.crypto_door import Post

ROOT = Path(__file__).parents[3]
MEMBERS = "sample-apps/members"
FILES = (
    f"{MEMBERS}/js/src/index.js",
    f"{MEMBERS}/go/main.go",
    f"{MEMBERS}/rust/src/lib.rs",
    "docs/guides/build/auth.md",
)


@pytest.mark.parametrize("file", FILES)
def test_decoy_takes_as_long_as_the_hash_of_an_account(post: Post, file: str) -> None:
    decoys = set(re.findall(r"\$argon2id\$v=19\$[\w=,]+\$[\w+/]+\$[\w+/]+", (ROOT / file).read_text()))
    (decoy,) = decoys
    _, account = post("password/hash", password="a password")
    assert extract_parameters(decoy) == extract_parameters(account["hash"])
    assert post("password/verify", password="a password", hash=decoy)[1]["valid"] is False
