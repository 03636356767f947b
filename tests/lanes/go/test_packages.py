"""Well-known modules in hosted programs: routers, templates, tokens, sqlc on the tables, a client of S3."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.compat.upstream import upstream
from engine.artifact import ComponentArtifact
from lanes.go.toolchain import Go
from tests.lanes.go.module import Module, Reply
from tests.lanes.tables import Guests
from tests.support.forms import multipart

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
SOURCES = Path(__file__).with_name("packages")
SCHEMA = """
create table authors (
    id integer primary key, name text not null unique, bio text, active boolean not null, photo blob,
    born timestamp not null
);
"""
Ask = Callable[..., Reply]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory, cache: Path, go: Go) -> Module:
    """The program with its modules; skipped where the module proxy is not reachable."""
    module = Module(tmp_path_factory.mktemp("packages ü").resolve(), cache)
    module.copy_with_modules(SOURCES, go)
    return module


@pytest.fixture(scope="module")
def artifact(module: Module) -> ComponentArtifact:
    return module.build("deploy")


@pytest.fixture
def ask(module: Module, artifact: ComponentArtifact) -> Ask:
    return lambda target, **given: module.ask(artifact, target, **given)[0]


def test_chi_routes_compresses_and_recovers(ask: Ask) -> None:
    reply = ask("/chi/items/7/", fields=[("accept-encoding", "gzip")])
    assert (reply.status, reply.values("x-kind"), reply.text) == (200, ["chi"], "7 true")
    assert (ask("/chi/items/x/").status, ask("/chi/panic").status) == (404, 500)


def test_gin_binds_validates_and_reads_uploads(ask: Ask) -> None:
    fields = [("content-type", "application/json")]
    reply = ask("/gin/items/7", method="POST", fields=fields, body=[b'{"name": "Ada"}'])
    assert (reply.status, reply.values("x-kind")) == (201, ["gin"])
    assert json.loads(reply.body) == {"id": 7, "name": "Ada"}
    refused = ask("/gin/items/7", method="POST", fields=fields, body=[b'{"name": "A"}'])
    assert refused.status == 400 and "failed on the 'min' tag" in refused.text
    upload = ask("/gin/upload", method="POST", **multipart(("file", "a.bin", bytes(100_000))))
    assert upload.text == "a.bin 100000"


def test_echo_binds_and_reports_errors(ask: Ask) -> None:
    reply = ask("/echo/items/7?name=Ada")
    assert json.loads(reply.body) == {"id": 7, "name": "Ada"}
    assert reply.values("x-frame-options") == ["SAMEORIGIN"]
    assert json.loads(ask("/echo/items/7").body) == {"message": "a name is needed"}


def test_gorilla_mux_matches_queries(ask: Ask) -> None:
    assert ask("/mux/items/7?name=x").text == "7"
    assert ask("/mux/items/7").status == 404


def test_generated_code_of_templ_escapes(ask: Ask) -> None:
    assert ask("/templ?name=%3Ci%3E").text == (
        '<!doctype html><title>&lt;i&gt;</title><ul><li class="item">a</li>'
        '<li class="item">&lt;b&gt;</li></ul>'
    )


def test_go_jose_signs_and_verifies_tokens(ask: Ask) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    lines = ask("/jose", method="POST", body=[key]).text.splitlines()
    assert lines == [f"{name} ada <nil> <nil>" for name in ("RS256", "PS256", "ES256", "EdDSA", "HS256")]


def test_generated_code_of_sqlc_runs_on_the_tables(
    artifact: ComponentArtifact, tmp_path: Path, cache: Path
) -> None:
    guests = Guests(artifact, "go", tmp_path, cache, schema=SCHEMA)
    answer = guests.json("/sqlc")
    author = {
        "ID": 1,
        "Name": "Ada",
        "Bio": {"String": "", "Valid": False},
        "Active": True,
        "Photo": "AP8=",
        "Born": "0001-01-01T00:00:00Z",
    }
    renamed = author | {"Name": "Grace"}
    assert answer.pop("duplicate").startswith("tables: UNIQUE constraint failed: authors.name")
    assert answer.pop("begin").endswith("use tables.Batch")
    assert answer == {
        "created": author,
        "renamed": 1,
        "found": renamed,
        "list": [renamed],
        "none": "sql: no rows in result set",
        "errors": "<nil> <nil> <nil>",
    }


def test_client_of_an_object_store_stores_lists_and_reads_objects_and_errors(
    tmp_path: Path, cache: Path, go: Go
) -> None:
    module = Module(tmp_path / "store ü", cache)
    module.copy_with_modules(SOURCES.with_name("object_store"), go)
    artifact = module.build("deploy")
    with upstream() as origin:
        reply = module.ask(artifact, "/", environment={"STORE": origin}, egress=(origin,))[0]
    assert json.loads(reply.body) == {
        "stored": True,
        "keys": ["a & b", "c"],
        "key": ["object", None],
        "none": [True, "NoSuchKey", "not there"],
        "denied": [False, "AccessDenied", "no"],
    }
