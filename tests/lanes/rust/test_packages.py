"""Well-known crates in guests: `api` uses the guest library, `streams` is a program of wstd."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from engine.artifact import ComponentArtifact
from tests.lanes.rust.crate import GUEST, Crate
from tests.support.guest_client import Answer

pytestmark = [pytest.mark.nightly, pytest.mark.slow(seconds=60), pytest.mark.timeout(1200)]
SOURCES = Path(__file__).with_name("packages")
CRATES = "axum, anyhow, jsonwebtoken, serde, tera, thiserror and wstd"
Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Ask:
    """Return the answer of a member of the workspace; skipped where the crates cannot be downloaded.

    The cache has the compiled crates, which take more time than all other tests.
    """
    compiled = cache / "rust-packages"
    root = (tmp_path_factory.mktemp("packages") / "project ü").resolve()
    shutil.copytree(SOURCES, root)
    shutil.copytree(GUEST, root / "svc-guest")
    # For all targets: build scripts have dependencies of their own for this machine.
    command = ["cargo", "fetch", "--locked"]
    environ = {**os.environ, "CARGO_NET_OFFLINE": "false"}
    try:
        fetched = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{CRATES}: the registry does not answer")
    if fetched.returncode != 0:
        pytest.skip(f"{CRATES} cannot be downloaded: {fetched.stderr.strip().splitlines()[-1]}")
    built: dict[str, tuple[Crate, ComponentArtifact]] = {}

    def ask(name: str, target: str, **fields: object) -> Answer:
        if name not in built:
            crate = Crate(root, cache)
            crate.workdir = root / name
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("CARGO_TARGET_DIR", str(compiled))
                built[name] = crate, crate.build()
        crate, artifact = built[name]
        return crate.ask(artifact, target, **fields)[0]

    return ask


def failure(answer: Answer) -> list[str]:
    """Return the printed lines of a failed request, without the place in the source."""
    assert (answer.status, answer.report.outcome) == (None, "guest-failed")
    return [text for _, text in answer.lines if not text.startswith("    at ")]


def test_serde_errors_pass_through_a_question_mark(ask: Ask) -> None:
    body = [b'{"id": 7, "name": "Ada"}']
    assert ask("api", "/json", method="POST", body=body).body == b'{"id":7,"name":"Ada"}'
    answer = ask("api", "/json", method="POST", body=[b'{"id": 7}'])
    assert failure(answer) == ["Error: missing field `name` at line 1 column 9"]
    assert answer.lines[1][1].startswith("    at api/src/lib.rs:15:")


def test_errors_of_anyhow_and_thiserror_report_their_causes(ask: Ask) -> None:
    cause = "  caused by invalid digit found in string"
    assert failure(ask("api", "/anyhow")) == ["Error: the port", cause]
    assert failure(ask("api", "/thiserror")) == ["Error: the settings are not valid", cause]
    answer = ask("api", "/status")
    assert (answer.status, answer.body) == (422, b"no settings")


def test_axum_routes_extracts_and_answers(ask: Ask) -> None:
    answer = ask("api", "/axum/items/7?name=Ada")
    assert json.loads(answer.body) == {"id": 7, "name": "Ada"}
    assert answer.headers[b"content-type"] == b"application/json"
    headers = ((b"content-type", b"application/json"),)
    created = ask("api", "/axum/items/8", method="POST", body=[b'{"id": 0, "name": "Bob"}'], headers=headers)
    assert (created.status, json.loads(created.body)) == (201, {"id": 8, "name": "Bob"})
    assert ask("api", "/axum/items/x?name=Ada").status == 400
    assert failure(ask("api", "/axum/fail")) == ["panicked: in a handler"]


def test_jsonwebtoken_signs_and_verifies_each_algorithm(ask: Ask) -> None:
    keys = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
        ec.generate_private_key(ec.SECP256R1()),
        ed25519.Ed25519PrivateKey.generate(),
    )
    texts: list[bytes] = []
    for key in keys:
        texts.append(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        texts.append(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    answer = ask("api", "/jwt", method="POST", body=[b"\n-\n".join(map(bytes.strip, texts))])
    lines = [f"{name} true true" for name in ("HS256", "RS256", "ES256", "EdDSA")]
    assert (answer.report.outcome, answer.body.decode().splitlines()) == ("ok", lines), answer.lines


def test_tera_renders_and_reports_errors(ask: Ask) -> None:
    assert ask("api", "/tera?name=%3Cb%3E").body == b"<h1>&lt;B&gt;</h1>1 2 "
    lines = failure(ask("api", "/tera?name=broken"))
    assert lines[0] == "Error: Failed to parse 'broken.html'"


def test_wstd_answers_streams_and_sleeps(ask: Ask) -> None:
    pieces = [bytes(70_000), b"end"]
    assert ask("streams", "/echo", method="POST", body=pieces).body == b"".join(pieces)
    assert ask("streams", "/slow").body == b"late"
    assert ask("streams", "/nothing").status == 404


def test_failures_of_wstd_are_reported(ask: Ask) -> None:
    details = [ask("streams", path).report.detail for path in ("/pending", "/error", "/panic")]
    pending, error, panic = details
    assert pending == "the handler never answers: its future waits for an event that cannot happen"
    assert error.startswith("the guest answered with the error internal-error: no luck")
    assert panic.startswith("panicked: no luck (streams/src/main.rs:16:")
