"""Values that statements of users, views and triggers collect in memory."""

import threading
import time
from collections.abc import Callable

import apsw
import pytest

from doors.tables.files import exporter
from doors.tables.files import importer as imported_rows
from engine.errors import SvcError
from svc_tui.client import Client
from tests.doors.tables.console.grids import open_grid
from tests.doors.tables.console.shop import ENDLESS, Shop
from tests.support.waiting import until

LARGE = f"{ENDLESS} select json_group_array(printf('%.1000000c', 'x')) as a from n"
PEAK = 1 << 30
ACTIONS: dict[str, Callable[[Shop], object]] = {
    "query": lambda shop: shop.query(LARGE),
    "write": lambda shop: shop.query(f"insert into t (a) {LARGE}", write=True),
    "migration": lambda shop: shop.migrate(f"create table u as {LARGE}", "0002-u.sql"),
    "grid of a view": lambda shop: open_grid(shop, "large"),
    "export of a view": lambda shop: shop.save("csv", "large"),
    "trigger of a change": lambda shop: shop.post(
        "rows", {"table": "t", "changes": [{"insert": {"a": "x"}}]}
    ),
    "trigger of an import": lambda shop: shop.load(b"a\nx\n", table="t"),
}


@pytest.fixture
def prepared(shop: Shop) -> Shop:
    shop.migrate(
        "create table t (id integer primary key, a text); create table u1 (a text);"
        f"create view large as {LARGE};"
        "create trigger r after insert on t begin insert into u1 select a from large; end"
    )
    return shop


@pytest.mark.parametrize("action", ACTIONS)
def test_collected_values_above_limit_are_refused(prepared: Shop, action: str) -> None:
    apsw.memory_high_water(True)
    with pytest.raises(SvcError, match=r"(collected|takes?) more than \d+ MiB"):
        ACTIONS[action](prepared)
    assert apsw.memory_high_water() < PEAK
    assert prepared.query("select count(*) as n from t")["rows"] == [{"n": 0}]


def test_client_disconnect_interrupts_export_of_an_endless_view(shop: Shop) -> None:
    shop.migrate(f"create view endless as {ENDLESS} select count(*) as n from n")
    params = {"format": "csv", "table": "endless"}
    with (
        Client(shop.client.url, "owner", timeout_seconds=1) as impatient,
        pytest.raises(SvcError, match="in time"),
        impatient.download("/v1/projects/shop/export", params=params),
    ):
        pass
    until(lambda: all(not thread.name.startswith("tables-stream") for thread in threading.enumerate()))


def test_view_whose_row_takes_long_is_not_exported(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.migrate(
        f"create view endless as {ENDLESS} select count(*) as n from n;"
        f"create view numbers as {ENDLESS} select i from n limit 3"
    )
    assert shop.save("csv", "numbers") == b"i\n1\n2\n3\n"
    monkeypatch.setattr(exporter, "ROW_SECONDS", 0.5)
    with pytest.raises(SvcError, match="a row of the view takes longer than"):
        shop.save("csv", "endless")


def test_import_with_an_endless_trigger_is_stopped(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.migrate(
        "create table t (a text); create table u1 (a);"
        f"create view endless as {ENDLESS} select count(*) as a from n;"
        "create trigger r after insert on t begin insert into u1 select a from endless; end"
    )
    monkeypatch.setattr(imported_rows, "CHUNK_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(SvcError, match="10,000 rows took longer than"):
        shop.load(b"a\nx\n", table="t")
    assert time.monotonic() - began < 30
    assert shop.query("select count(*) as n from t")["rows"] == [{"n": 0}]
