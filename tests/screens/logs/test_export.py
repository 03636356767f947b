"""Exports from the timeline of a real project in development."""

import json
import os
from pathlib import Path

import pytest

from screens.dialog import ConfirmDialog, Form
from screens.logs import records
from tests.screens.dev_project import Shop
from tests.screens.logs.test_screen import Logs, open_logs
from tests.screens.logs.timelines import fill

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


async def to(logs: Logs, path: Path) -> None:
    """Open the export form and enter a path."""
    await logs.press("X")
    await logs.until(lambda: isinstance(logs.pilot.app.screen, Form))
    line = logs.pilot.app.screen.query_one("#file")
    line.value = str(path)  # type: ignore[attr-defined]
    await logs.press("enter")


async def done(logs: Logs) -> None:
    await logs.until(lambda: logs.pilot.app.screen is logs.screen)


async def test_export_writes_matching_records_in_order(shop: Shop, tmp_path: Path) -> None:
    fill(shop.root, 12_000)
    async with open_logs(shop) as logs:
        logs.screen.navigate(["level:error"])
        await logs.shows("12 records")
        await to(logs, tmp_path / "errors.jsonl")
        await done(logs)
    result = [json.loads(line) for line in (tmp_path / "errors.jsonl").read_text().splitlines()]
    assert [each["body"] for each in result] == [f"said {number}" for number in range(0, 12_000, 1000)]
    assert result[0]["attributes"] == {"id": "0"}
    assert [each.name for each in tmp_path.iterdir() if "errors" in each.name] == ["errors.jsonl"]


async def test_text_export_writes_complete_lines(shop: Shop, tmp_path: Path) -> None:
    fill(shop.root, 2_500)
    async with open_logs(shop) as logs:
        logs.screen.navigate(["said"])
        await logs.shows("2,500 records")
        await to(logs, tmp_path / "all.txt")
        await done(logs)
    lines = (tmp_path / "all.txt").read_text().splitlines()
    assert len(lines) == 2_500
    assert lines[-1].endswith("INFO    docs  said 2499  id=2499")


async def test_export_asks_before_replacing_file(shop: Shop, tmp_path: Path) -> None:
    existing = tmp_path / "kept.jsonl"
    existing.write_text("mine")
    fill(shop.root, 1)
    async with open_logs(shop) as logs:
        await to(logs, existing)
        await logs.until(lambda: isinstance(logs.pilot.app.screen, ConfirmDialog))
        await logs.press("n")
        await logs.shows("nothing was written")
        assert existing.read_text() == "mine"
        await logs.press("enter")
        await logs.until(lambda: isinstance(logs.pilot.app.screen, ConfirmDialog))
        await logs.press("y")
        await done(logs)
    assert "said 0" in existing.read_text()


async def test_stopped_export_leaves_no_file(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PAGE_RECORDS", 2)  # so that it takes a minute
    fill(shop.root, 40_000)
    async with open_logs(shop) as logs:
        await to(logs, tmp_path / "much.jsonl")
        await logs.shows("records", "━")
        await logs.press("escape")
        await logs.shows("nothing was written")
        await logs.press("escape")
        await done(logs)
    assert not [each for each in tmp_path.iterdir() if "much" in each.name]


async def test_export_to_invalid_path_shows_error(shop: Shop, tmp_path: Path) -> None:
    async with open_logs(shop) as logs:
        await to(logs, tmp_path / "all.pdf")
        await logs.shows("Use .jsonl")
        await logs.press("escape")
        await to(logs, tmp_path / "nowhere" / "all.log")
        await logs.shows("cannot write", os.strerror(2))
