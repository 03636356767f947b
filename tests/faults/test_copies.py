"""Comparison of files of tables."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.engine.fleet.machines import MIGRATION
from tests.faults.applications import INSERT, SCHEMA, SUMS, SUMS_SQL, TRANSACTIONS
from tests.faults.copies import differing


def copy(folder: Path, *statements: str) -> Path:
    folder.mkdir()
    with closing(apsw.Connection(str(folder / "tables.db"))) as connection:
        connection.execute(MIGRATION + SCHEMA)
        connection.execute(INSERT, ("one",))
        for statement in statements:
            connection.execute(statement)
    return folder / "tables.db"


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("SELECT 1", []),
        ("UPDATE accounts SET cents = 499 WHERE name = 'a'", ["accounts"]),
        ("UPDATE entries SET id = 7 WHERE text = 'two'", ["entries"]),
        ("CREATE INDEX more ON ticks (text)", ["schema"]),
        ("INSERT INTO words (words) VALUES ('optimize')", ["words_data", "words_idx"]),
    ],
)
def test_what_differs_between_files_is_named(tmp_path: Path, statement: str, difference: list[str]) -> None:
    paths = [copy(tmp_path / "a", "INSERT INTO entries (text) VALUES ('two')")]
    paths.append(copy(tmp_path / "b", "INSERT INTO entries (text) VALUES ('two')", statement))
    assert set(differing(paths, tmp_path / "scratch")) <= set(difference)
    assert bool(differing(paths, tmp_path / "again")) is bool(difference)


def test_sums_hold_after_each_transaction(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(copy(tmp_path / "a")))) as connection:
        connection.execute("PRAGMA foreign_keys = on")
        for number, statements in enumerate([*TRANSACTIONS.values()] * 2):
            for at, statement in enumerate((*statements, INSERT)):
                value = "ab"[at] if "accounts" in statement else str(number)
                connection.execute(statement, (value,) * min(1, statement.count("$1")))
            assert connection.execute(f"SELECT {SUMS_SQL}").fetchone() == (SUMS,)
