"""The route for usage: its rows are read and sent in pieces."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from engine.control.app import create_app
from engine.control.projects import SingleProject
from engine.control.routes import usage
from engine.usage.store import MINUTE_NS, USAGE_FILE, UsageCount, UsageStore
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from tests.engine.control.served import served
from tests.support.roles import EveryRole


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 2001])
def test_usage_has_the_rows_of_all_pages_in_order(tmp_path: Path, count: int) -> None:
    minute = time.time_ns() // MINUTE_NS
    if count:
        with closing(UsageStore(tmp_path / USAGE_FILE)) as store:
            numbers = UsageCount(3, 1, compute_ns=5, wall_ns=7, peak_memory=9, bytes_in=11, bytes_out=13)
            store.add({(minute - number // 10, f"r{number % 10}"): numbers for number in range(count)})
            store.add({(minute - 10_000, "old"): numbers})
    app = create_app(EveryRole(), [usage.blueprint(SingleProject("shop", tmp_path))])
    with (
        run_in_background(lambda stop: served(app, stop), "control") as address,
        Client(address, "viewer") as client,
    ):
        found = client.call("GET", "/v1/projects/shop/usage", params={"minutes": 5000})
    rows = found["rows"]
    assert (len(rows), found["memory"]) == (count, None)
    assert [(row["minute"], row["resource"]) for row in rows] == sorted(
        (minute - number // 10, f"r{number % 10}") for number in range(count)
    )
    for row in rows[:1]:
        del row["minute"], row["resource"]
        assert row == {
            "requests": 3,
            "failures": 1,
            "compute_ns": 5,
            "wall_ns": 7,
            "peak_memory": 9,
            "bytes_in": 11,
            "bytes_out": 13,
        }
