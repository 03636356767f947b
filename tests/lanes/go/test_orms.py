"""Packages that build their own SQL in a Go program: GORM, Bun, sqlx, Squirrel and the builder of Ent."""

from pathlib import Path

import pytest

from engine.artifact import ComponentArtifact
from lanes.go.toolchain import Go
from tests.lanes.go.module import Module
from tests.lanes.tables import Guests

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
SOURCES = Path(__file__).with_name("orms")
SCHEMA = """
create table authors (
    id integer primary key autoincrement, name text not null unique, bio text, active boolean not null,
    born timestamp not null
);
create table books (
    id integer primary key autoincrement, author_id integer not null references authors, title text not null
);
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory, cache: Path, go: Go) -> ComponentArtifact:
    """The program with its modules; skipped where the module proxy is not reachable."""
    module = Module(tmp_path_factory.mktemp("orms ü").resolve(), cache)
    module.copy_with_modules(SOURCES, go)
    return module.build("deploy")


@pytest.fixture
def guests(artifact: ComponentArtifact, tmp_path: Path, cache: Path) -> Guests:
    return Guests(artifact, "go", tmp_path, cache, schema=SCHEMA)


FOUND = {"name": "Grace", "active": True, "born": "1815-12-10T00:00:00Z", "books": 2}


def test_gorm_creates_finds_and_deletes_rows_with_relations(guests: Guests) -> None:
    answer = guests.json("/gorm")
    assert answer.pop("duplicate") == "tables: UNIQUE constraint failed: authors.name"
    assert answer.pop("transaction").endswith("use tables.Batch")
    assert answer.pop("migrate").endswith("use tables.Batch")
    assert answer == FOUND | {"active": False, "id": 1, "count": 2, "none": True}


def test_bun_creates_finds_and_deletes_rows_with_relations(guests: Guests) -> None:
    assert guests.json("/bun") == FOUND | {"id": 1}


def test_sqlx_binds_names_and_lists(guests: Guests) -> None:
    answer = guests.json("/sqlx")
    assert answer == {"id": 1, "name": "Ada", "active": True, "born": FOUND["born"], "none": True}


def test_squirrel_and_ent_build_statements(guests: Guests) -> None:
    assert guests.json("/builders") == {"name": "Ada"}
