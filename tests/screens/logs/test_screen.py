"""Logs screen over the timeline of a real project in development."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from rich.segment import Segment
from textual.pilot import Pilot
from textual.widgets import Static

from engine.grant import Grant
from engine.timeline.database import timeline_path
from engine.timeline.record import LineRecord, PlatformRecord, StructuredRecord
from engine.timeline.recorder import TimelineStore
from screens.dialog import ConfirmDialog
from screens.logs.request_view import RequestView
from screens.logs.screen import GrantDialog, LogsScreen
from tests.screens.dev_project import Console, Driven, Shop

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@asynccontextmanager
async def open_logs(
    shop: Shop, size: tuple[int, int] = (120, 24), kind: Literal["dev", "service"] = "dev"
) -> AsyncIterator["Logs"]:
    link = shop.link()
    link.info = replace(link.info, kind=kind)
    screen = LogsScreen(link, now=lambda: datetime(2026, 11, 21))
    app = Console(screen)
    app.animation_level = "none"
    try:
        async with app.run_test(size=size) as pilot:
            await asyncio.to_thread(link.reconnect)
            screen.link_changed()
            logs = Logs(pilot, screen)
            await logs.until(lambda: "following" in logs.text)
            yield logs
    finally:
        link.shut_down()


class Logs(Driven):
    """The Logs screen, driven by a test."""

    def __init__(self, pilot: Pilot[Any], screen: LogsScreen) -> None:
        super().__init__(pilot)
        self.screen = screen

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def say(self, line: str) -> None:
        """Type a line into the open input."""
        await self.until(lambda: bool(self.screen.query_one("FilterLine").display))
        self.screen.query_one("FilterLine").value = line  # type: ignore[attr-defined]
        await self.press("enter")


async def test_new_records_appear_live(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        await asyncio.to_thread(shop.get, "/docs/x")
        await logs.shows("web → docs", "/docs/x", "200")
        await asyncio.to_thread(shop.get, "/none")
        await logs.shows("not-found", "/none", "404")
        count = len([line for line in logs.text.splitlines() if "GET" in line])
        assert count == 2


async def test_scrolling_up_counts_new_records_until_following(shop: Shop) -> None:
    for _ in range(30):
        shop.get("/")
    async with open_logs(shop) as logs:
        await logs.until(lambda: logs.screen.rows.count == 33)
        await logs.press("g")
        await logs.shows("G follows")
        for _ in range(3):
            await asyncio.to_thread(shop.get, "/new")
        await logs.shows("3 new ↓")
        assert "/new" not in logs.text
        await logs.press("G")
        await logs.shows("/new", "following ●")
        assert "new ↓" not in logs.text


async def test_sql_groups_the_requests(shop: Shop) -> None:
    for path in ("/", "/missing", "/missing"):
        shop.get(path)
    async with open_logs(shop) as logs:
        await logs.shows("6 records")
        await logs.press("Q")
        await logs.shows("SQL of the logs", "handler")
        await logs.press("ctrl+s")
        await logs.shows("2 rows", "/missing  2")
        assert "Allow writing" not in logs.text


async def test_pause_counts_waiting_records(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        await logs.press("p")
        await logs.shows("paused, 0 waiting")
        await asyncio.to_thread(shop.get, "/later")
        await logs.shows("paused, 1 waiting")
        assert "/later" not in logs.text
        await logs.press("p")
        await logs.shows("/later")


async def test_filter_shows_removable_parts(shop: Shop) -> None:
    for path in ("/", "/missing", "/docs/x"):
        shop.get(path)
    async with open_logs(shop) as logs:
        await logs.shows("/missing", "/docs/x")
        await logs.press("f")
        await logs.say("status:4xx resource:web")
        await logs.shows("status:4xx ×", "/missing")
        await logs.hides("/docs/x")
        await logs.press("f")
        await logs.say("status:9xx")
        await logs.until(lambda: bool(logs.pilot.app._notifications))
        await logs.press("escape", "x")
        await logs.hides("status:4xx")
        await logs.press("x")
        await logs.shows("/docs/x", "f filter")


async def test_cursor_stays_on_record_when_filter_is_removed(shop: Shop) -> None:
    for number in range(40):
        shop.get("/docs/x" if number == 5 else f"/{number}")
    async with open_logs(shop) as logs:
        await logs.shows("/39")
        logs.screen.navigate(["GET", "/docs/x"])
        await logs.shows("1 record ", "/docs/x")
        await logs.press("k", "x")
        await logs.until(lambda: "/docs/x" in at(logs) and "/6" in logs.text)
        await logs.shows("G follows")


@pytest.fixture
def old_record(root: Path) -> None:
    """Write a record before the first one of the shop."""
    at = time.time_ns() - 2 * 3600 * 1_000_000_000
    store = TimelineStore(timeline_path(root))
    store.append([LineRecord(at, "", "web", "stdout", "two hours ago")], at)
    store.close()


@pytest.mark.usefixtures("old_record")
async def test_filter_with_until_does_not_follow(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        logs.screen.navigate(["since:3h", "until:1h"])
        await logs.shows("until:1h ×", "two hours ago", "1 record ")
        await logs.hides("following")
        await asyncio.to_thread(shop.get, "/now")
        await logs.press("x")
        await logs.shows("/now", "following ●")


async def test_search_highlights_matches_until_back(shop: Shop) -> None:
    shop.get("/one")
    async with open_logs(shop) as logs:
        await logs.shows("/one")
        await logs.press("slash")
        await logs.say("ONE")
        await logs.shows("/ONE ×")
        match_style = logs.screen.rows._styles_for("match")
        await logs.until(
            lambda: any(
                seg.text == "one" and seg.style and seg.style.bgcolor == match_style.bgcolor
                for seg in segments(logs)
            )
        )
        await logs.press("s")
        await logs.shows("GET     20")
        await logs.press("escape")
        await logs.hides("GET     20")
        await logs.shows("/ONE ×")
        await logs.press("escape")
        await logs.shows("f filter")


def segments(logs: Logs) -> list[Segment]:
    return [segment for strip in logs.screen._compositor.render_strips() for segment in strip]


async def test_filter_without_matches_shows_hint(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        logs.screen.navigate(["no such text"])
        await logs.shows("No records match the filter")


async def test_jumps_to_errors_matches_and_records_of_request(shop: Shop) -> None:
    for path in ("/one", "/", "/two", "/", "/docs/x", "/"):
        shop.get(path)
    async with open_logs(shop) as logs:
        await logs.shows("/docs/x")
        await logs.press("slash")
        await logs.say("/two")
        await logs.until(lambda: "/two" in at(logs))
        await logs.press("slash")
        await logs.say("get /")
        await logs.until(lambda: "/two" not in at(logs))
        await logs.press("n")
        await logs.until(lambda: "/two" in at(logs))
        await logs.press("e")
        await logs.until(lambda: any("no error" in note.message for note in logs.pilot.app._notifications))


def at(logs: Logs) -> str:
    """Return the row at the cursor."""
    return next((line for line in logs.text.splitlines() if line.startswith("▌")), "")


async def test_enter_opens_request_and_escape_returns(shop: Shop) -> None:
    shop.get("/docs/x")
    async with open_logs(shop) as logs:
        await logs.shows("/docs/x")
        await logs.press("enter")
        await logs.shows("└ docs", "━", "trace")
        assert isinstance(logs.pilot.app.screen, RequestView)
        await logs.shows(
            "request  GET /docs/x", "user-agent", "response  200", "content-type", "Copy as curl"
        )
        await logs.press("c")
        assert (
            logs.pilot.app.clipboard.startswith("curl -i http://") and "/docs/x" in logs.pilot.app.clipboard
        )
        await logs.press("escape")
        assert logs.pilot.app.screen is logs.screen


async def test_replay_runs_against_working_copy(shop: Shop) -> None:
    shop.get("/docs/x")
    async with open_logs(shop) as logs:
        await logs.shows("/docs/x")
        (shop.root / "site" / "docs" / "x").write_text("changed")
        await asyncio.to_thread(shop.answers, "/docs/x", "changed")
        logs.screen.navigate(["resource:docs", "GET"])
        await logs.shows("resource:docs ×", "2 records")
        await logs.until(lambda: logs.screen.rows.count == 2)
        await logs.press("g", "r")
        await logs.shows("replay of GET /docs/x", "≠ changed")
        await logs.press("escape")
        assert logs.pilot.app.screen is logs.screen


async def test_replay_of_unsafe_method_asks_first(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        await asyncio.to_thread(httpx.post, f"http://127.0.0.1:{shop.port}/docs/x")
        await logs.shows("POST    web → docs      405")
        await logs.press("r")
        await logs.until(lambda: isinstance(logs.pilot.app.screen, ConfirmDialog))
        await logs.press("r", "n")
        await logs.shows("POST /docs/x", "trace")
        await logs.press("r")
        await logs.until(lambda: isinstance(logs.pilot.app.screen, ConfirmDialog))
        await logs.press("y")
        await logs.shows("replay of POST /docs/x", "405")


async def test_service_offers_no_replay_and_no_undo(shop: Shop) -> None:
    shop.get("/docs/x")
    async with open_logs(shop, kind="service") as logs:
        await logs.shows("/docs/x")
        offered = {active.binding.action for active in logs.screen.active_bindings.values()}
        assert "pause" in offered and not {"replay", "undo"} & offered
        await logs.press("r")
        assert logs.pilot.app.screen is logs.screen
        await logs.press("enter")
        await logs.shows("└ docs")
        view = logs.pilot.app.screen
        assert "replay" not in {active.binding.action for active in view.active_bindings.values()}


async def test_record_details_and_copy(shop: Shop) -> None:
    shop.get("/" + "long" * 60)
    async with open_logs(shop) as logs:
        await logs.shows("/long")
        await logs.press("s")
        await logs.shows("request 01")
        await logs.press("y")
        await logs.until(lambda: bool(logs.pilot.app.clipboard))
        assert json.loads(logs.pilot.app.clipboard)["target"].startswith("/long")


async def test_request_view_of_many_and_long_records(shop: Shop) -> None:
    store = TimelineStore(timeline_path(shop.root))
    output = [LineRecord(time.time_ns(), "many", "docs", "stdout", f"line {n}") for n in range(10_000)]
    last = StructuredRecord(
        time_ns=time.time_ns(),
        request_id="many",
        trace_id="",
        span_id="",
        resource="docs",
        severity="INFO",
        body="wide " * 10_000,
        attributes={"end": "here"},
    )
    store.append([*output, last], time.time_ns())
    store.close()
    async with open_logs(shop) as logs:
        logs.screen.navigate(["request:many"])
        await logs.shows("10,001 records", "wide wide")
        await logs.press("s")
        await logs.shows("INFO    ", "wide wide wide wide wide wide wide wide wide wide wide wide")
        await logs.press("enter")
        await logs.shows("line 12")
        await logs.press("G")
        await logs.shows("… 5,001 more")


async def test_engine_restart_loses_and_repeats_no_records(shop: Shop) -> None:
    async with open_logs(shop) as logs:
        await asyncio.to_thread(shop.get, "/before")
        await logs.shows("/before")
        logs.screen.client.mark_lost()
        await asyncio.to_thread(shop.get, "/meanwhile")
        await asyncio.to_thread(logs.screen.client.reconnect)
        logs.screen.link_changed()
        await asyncio.to_thread(shop.get, "/after")
        await logs.shows("/after")
        targets = [
            word for line in logs.text.splitlines() for word in line.split() if word[:2] in ("/b", "/m", "/a")
        ]
        assert targets == ["/before", "/meanwhile", "/after"]


async def test_small_terminal_shows_essentials(shop: Shop) -> None:
    async with open_logs(shop, size=(60, 20)) as logs:
        await asyncio.to_thread(shop.get, "/docs/x")
        await logs.shows("GET     web → docs    200 /docs/x")
        await logs.pilot.resize_terminal(120, 30)
        await logs.shows("GET     web → docs      200  ")
        await logs.pilot.resize_terminal(80, 24)
        await logs.shows("GET     web → docs    200  ", "ms  /docs/x")
        assert isinstance(logs.screen.query_one("#state"), Static)


async def test_denied_path_is_allowed_and_undone_by_keys(shop: Shop) -> None:
    before = shop.manifest
    async with open_logs(shop) as logs:
        await asyncio.to_thread(shop.get, "/blog/x")
        await logs.shows("no mount of web", "404")
        await logs.press("A")
        await logs.until(lambda: any("nothing was denied" in text for text in logs.app.messages))
        await logs.press("k", "s")
        await logs.shows('A allows it:  "/blog/*" = "blog"')
        await logs.press("A")
        await logs.shows("Change svc.toml?", '+mounts = { "/docs/*" = "docs", "/blog/*" = "blog" } # kept')
        await logs.press("n")
        await logs.until(lambda: not isinstance(logs.app.screen, GrantDialog))
        assert shop.manifest == before
        await logs.press("A")
        await logs.shows("Change svc.toml?")
        await logs.press("y")
        await logs.until(lambda: '"/blog/*" = "blog"' in shop.manifest)
        await logs.until(lambda: "wrote svc.toml; u undoes it" in logs.app.messages)
        await logs.press("u")
        await logs.shows("Undo the change of svc.toml?")
        await logs.press("y")
        await logs.until(lambda: shop.manifest == before)
        await logs.press("u")
        await logs.until(lambda: any("there is no change to undo" in text for text in logs.app.messages))


async def test_command_of_a_denial_is_copied(shop: Shop) -> None:
    command = "svc quota set shop --egress N"
    store = TimelineStore(timeline_path(shop.root))
    event = PlatformRecord(time.time_ns(), "web", "WARN", "quota reached", grant=Grant("quota", command))
    store.append([event], time.time_ns())
    store.close()
    async with open_logs(shop) as logs:
        await logs.shows("quota reached")
        await logs.press("A")
        await logs.shows("A command allows this", command)
        await logs.press("y")
        await logs.until(lambda: logs.app.clipboard == command)


async def test_frames_of_a_stack_belong_to_the_row_of_their_error(shop: Shop) -> None:
    frames = ("    at book (api/src/index.ts:7:9)", "    at dispatch (node_modules/hono/dist/compose.js:4:2)")
    texts = ("Error: no room left", *frames, "second error", "stdout next")
    store = TimelineStore(timeline_path(shop.root))
    now = time.time_ns()
    store.append([LineRecord(now, "01one", "api", "stderr", each) for each in texts], now)
    store.append([LineRecord(now, "01two", "api", "stderr", frames[0])], now)
    store.close()
    async with open_logs(shop) as logs:
        await logs.shows("Error: no room left", "… 2 more lines", "second error")
        rows = [line for line in logs.text.splitlines() if "STDERR" in line]
        assert len(rows) == 4 and "at book" in rows[-1], "the first line of another request is a row"
        await logs.press("g", "slash")
        await logs.say("compose.js")
        await logs.press("n")
        await logs.until(
            lambda: logs.screen._source.cursor(logs.screen.rows.cursor_row) == error_cursor(logs)
        )
        await logs.press("s")
        await logs.shows("at dispatch (node_modules/hono/dist/compose.js:4:2)")
        await logs.press("f")
        await logs.say("text:compose.js")
        await logs.shows("at dispatch")


def error_cursor(logs: Logs) -> int:
    """Return the cursor of the row with the first error."""
    count = logs.screen._source.count()
    cursors = [logs.screen._source.cursor(row) for row in range(count)]
    return next(
        cursor
        for cursor in cursors
        if "no room" in (logs.screen._source.document(cursor) or {}).get("body", "")
    )
