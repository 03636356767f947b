"""Applications of the fleet's project, in three languages: they pass requests to the tables library.

`SUMS` holds after each of the transactions in `TRANSACTIONS`.
"""

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.go_cache import go_build_cache
from tests.support.toolchains import rust_and_go

SOURCES = Path(__file__).with_name("apps")
GUEST = Path(__file__).resolve().parents[2] / "lanes" / "rust" / "guest"
LANES = ("js", "go", "rust")
SCHEMA = """\
CREATE INDEX entries_text ON entries (text);
CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0)) WITHOUT ROWID;
INSERT INTO accounts VALUES ('a', 500), ('b', 500), ('c', 500);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('ticks', 0);
CREATE TABLE ticks (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE parents (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parents ON DELETE CASCADE);
CREATE INDEX children_parent ON children (parent);
CREATE TABLE vault (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
INSERT INTO vault WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 400)
    SELECT i, printf('%01000d', i) FROM n;
"""
SUMS_SQL = (
    "(SELECT sum(cents) FROM accounts) || ' ' || (SELECT n - (SELECT count(*) FROM ticks) FROM counters)"
    " || ' ' || (SELECT 2 * count(*) - (SELECT count(*) FROM children) FROM parents)"
    " || ' ' || (SELECT count(*) - (SELECT count(*) FROM words) FROM entries)"
    " || ' ' || (SELECT count(*) FROM vault WHERE text = printf('%01000d', id))"
)
SUMS = "1500 0 0 0 400"
"""Money is constant, counters count, children have parents, triggers index each text, and old rows stay."""
INSERT = "INSERT INTO entries (text) VALUES ($1)"
Statement = tuple[str, ...]
"""SQL and its parameters."""
TRANSACTIONS: Mapping[str, Sequence[str]] = {
    "insert": (),
    "count": ("UPDATE counters SET n = n + 1", "INSERT INTO ticks (text) VALUES ($1)"),
    "family": (
        "INSERT INTO parents (text) VALUES ($1)",
        "INSERT INTO children (parent) SELECT id FROM parents, (SELECT 1 UNION ALL SELECT 2) WHERE text = $1",
        "DELETE FROM parents WHERE id <= (SELECT max(id) - 20 FROM parents)",
    ),
    "transfer": (
        "UPDATE accounts SET cents = cents - 70 WHERE name = $1",
        "UPDATE accounts SET cents = cents + 70 WHERE name = $1",
    ),
}


def random_transaction(chance: random.Random, text: str) -> list[Statement]:
    """Return statements that insert a text, and mostly change other tables too."""
    name = chance.choice(list(TRANSACTIONS))
    names = iter(chance.sample("abc", 2))
    return [
        *(
            (sql, *([next(names) if name == "transfer" else text] * sql.count("$1")))
            for sql in TRANSACTIONS[name]
        ),
        (INSERT, text),
    ]


def body_of(kind: str, *statements: Statement, key: str = "", stale: bool = False) -> bytes:
    """Return a request to an application."""
    lines = [(kind, key, "stale" if stale else ""), *statements]
    return "\n".join("\t".join(line) for line in lines).encode()


def add_applications(project: Path) -> None:
    """Add the applications and their tables to a project."""
    shutil.copytree(SOURCES, project, dirs_exist_ok=True)
    shutil.copytree(GUEST, project / "rust" / "svc-guest")
    with (project / "svc.toml").open("a") as manifest:
        for lane in LANES:
            manifest.write(f'\n[resource.{lane}]\nlane = "{lane}"\npublic = true\nworkdir = "{lane}"\n')
    (project / "tables" / "0002-bank.sql").write_text(SCHEMA)


@contextmanager
def toolchains(cache: Path) -> Iterator[None]:
    """Build with the toolchains in a cache folder within the context."""
    with rust_and_go(cache), pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOCACHE", str(go_build_cache(cache)))
        yield


def default_cache() -> Path:
    """Return the cache folder of tests."""
    return Path(os.environ.get("SVC_TEST_CACHE") or ".svc/test-cache").resolve()
