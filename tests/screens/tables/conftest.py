"""The Tables tab over the real control API of a project without an engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.tables.tables_tab import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / ".svc")
    with shop.serving():
        yield shop


@pytest.fixture
def people(shop: Shop) -> Shop:
    """The project `shop` with a table of people."""
    shop.sql(
        "create table people (id integer primary key, name text not null, age integer, mail text unique)"
    )
    shop.sql(
        "insert into people (name, age, mail)"
        " values ('Ann', 41, 'ann@x.org'), ('Bob', 27, null), ('Cleo', 33, null)"
    )
    return shop
