from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.tables.schema.change import apply
from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection
from tests.doors.tables.schema.changes import VISITS


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Connection]:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute("pragma synchronous = off")
    yield connection
    assert not connection.in_transaction
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert connection.execute("pragma foreign_keys").fetchall() == [(1,)]
    connection.close()


@pytest.fixture
def visits(database: Connection) -> Connection:
    apply(database, [VISITS])
    database.execute("insert into visits (id, name) values (1, 'ada'), (5, 'bob'), (9, 'cy')")
    return database
