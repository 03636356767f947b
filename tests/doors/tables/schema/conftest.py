from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.tables.sqlite import Connection


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Connection]:
    connection = Connection(str(tmp_path / "tables.db"))
    connection.execute("pragma journal_mode = wal; pragma foreign_keys = on").fetchall()
    yield connection
    assert not connection.in_transaction
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert connection.execute("pragma foreign_keys").fetchall() == [(1,)]
    connection.close()
