"""Snapshots of the Logs screen at 80x24 and at a wide size."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from doors.tables.replication.entry import Origin
from doors.tables.sqlite.owner import open_for_writing
from engine.files.data_dir import DATA_DIR
from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, RequestRecord, StructuredRecord
from engine.timeline.recorder import TimelineStore
from tests.engine.timeline.records import REQUEST
from tests.screens.dev_project import Shop
from tests.screens.logs.test_screen import Logs, open_logs

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
AT = 1_795_252_443_118_000_000
"""The time of all records in nanoseconds of the Unix epoch."""
Snapshot = Callable[[App[Any]], None]


def write_records(root: Path) -> None:
    """Write a request, a failed request and log records to the timeline."""
    good, bad, trace = "01jentry00000000000000good", "01jentry000000000000000bad", "f" * 32

    def span(id_: str, parent: str, resource: str, target: str, *, root: bool = True) -> RequestRecord:
        return replace(
            REQUEST,
            time_ns=AT,
            request_id=good,
            trace_id=trace,
            span_id=id_ * 16,
            parent=parent,
            resource=resource,
            method="POST",
            target=target,
            status=201,
            wall_ns=8_200_000,
            compute_ns=5_100_000,
            peak_memory=3 << 20,
            bytes_in=120,
            bytes_out=4_000,
            root=root,
        )

    failed = replace(
        span("c", "", "web", "/entry"),
        request_id=bad,
        method="GET",
        status=504,
        code="run-limit",
        detail="30 s reached",
        wall_ns=30_000_000_000,
        compute_ns=200_000,
        bytes_in=0,
        bytes_out=0,
    )
    store = TimelineStore(timeline_path(root))
    store.append(
        [
            StructuredRecord(
                time_ns=AT,
                request_id=good,
                trace_id="",
                span_id="",
                resource="api",
                severity="INFO",
                body="entry saved",
                attributes={"id": "12407", "mood": "sunny"},
            ),
            LineRecord(AT + 1_000_000, good, "api", "stdout", "the entry took 2 ms"),
            span("b", "a" * 16, "api", "/entry", root=False),
            span("a", "", "web", "/api/entry"),
            StructuredRecord(
                time_ns=AT,
                request_id=bad,
                trace_id="",
                span_id="",
                resource="api",
                severity="WARN",
                body="entry 漢字 of ملف, e\u0301 and so on",
                attributes={},
            ),
            StructuredRecord(
                time_ns=AT,
                request_id=bad,
                trace_id="",
                span_id="",
                resource="api-of-a-long-name",
                severity="ERROR",
                body="no entry: " + "why " * 40,
                attributes={},
            ),
            failed,
        ],
        AT,
    )
    store.close()


async def shown(logs: Logs) -> None:
    """Show only the written records."""
    logs.screen.navigate(["entry"])
    await logs.shows("text:entry", "6 records   following", "run-limit /entry")


async def test_logs_in_80_columns(shop: Shop, snapshot: Snapshot) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=(80, 24)) as logs:
        await shown(logs)
        snapshot(logs.pilot.app)


async def test_logs_in_wide_terminal(shop: Shop, snapshot: Snapshot) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=(160, 20)) as logs:
        await shown(logs)
        snapshot(logs.pilot.app)


async def test_logs_record_details(shop: Shop, snapshot: Snapshot) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=(80, 24)) as logs:
        await shown(logs)
        await logs.press("k", "s")
        await logs.shows("ERROR   2026-11-21 09", "request 01jentry", "G follows")
        snapshot(logs.pilot.app)


async def test_logs_request_view(shop: Shop, snapshot: Snapshot) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=(80, 24)) as logs:
        await shown(logs)
        await logs.press("g", "enter")
        await logs.shows("└ api", "mood=sunny")
        snapshot(logs.pilot.app)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_request_view_shows_the_rows_that_the_request_wrote(shop: Shop, size: tuple[int, int]) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=size) as logs:
        await shown(logs)
        await logs.press("g", "enter")
        await logs.shows("└ api")
        request = logs.pilot.app.screen._request  # type: ignore[attr-defined]
        await logs.press("w")
        await logs.shows("What it wrote is not known: the history")
        await logs.press("escape")
        with open_for_writing(
            shop.root / DATA_DIR, origin=Origin("request", requests=[request])
        ) as connection:
            for sql in (
                "create table item (id integer primary key, name)",
                "insert into item values (7, 'tea')",
            ):
                connection.execute("begin immediate")
                connection.execute(sql)
                connection.execute("commit")
        await logs.press("w")
        await logs.shows("1 row written", "insert item 7", 'name "tea"')


async def test_logs_export_form(shop: Shop, snapshot: Snapshot) -> None:
    write_records(shop.root)
    async with open_logs(shop, size=(80, 24)) as logs:
        await shown(logs)
        await logs.press("X")
        await logs.shows("Export records", "entry saved")
        await logs.hides("p Pause")
        snapshot(logs.pilot.app)
