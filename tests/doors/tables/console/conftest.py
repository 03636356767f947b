"""The control API of a project's tables, over its real listener and the real client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_tui.client import Client
from tests.doors.tables.console.shop import USERS, Shop, api


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with api(tmp_path) as address:
        yield address


@pytest.fixture
def shop(address: str, tmp_path: Path) -> Iterator[Shop]:
    """The owner's view of a project without tables."""
    with Client(address, "owner") as client:
        yield Shop(client, tmp_path)


@pytest.fixture
def users(shop: Shop) -> Shop:
    """The project of `shop` with a table of two users."""
    shop.change(USERS)
    shop.query("insert into users (name) values ($1), ($2)", "Ada", "Grace", write=True)
    return shop
