from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.tables.sqlite.connections import open_owner
from doors.tables.sqlite.errors import Connection


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Connection]:
    connection = open_owner(tmp_path / "tables.db")
    connection.execute("pragma synchronous = off")
    yield connection
    assert not connection.in_transaction
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert connection.execute("select name from sqlite_temp_schema").fetchall() == []
    connection.close()
