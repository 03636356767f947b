"""The Board of a real Project: the picture, drawing mounts into svc.toml, and taking them back."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from screens.board.render import Hit
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client
from tests.screens.board.conftest import Board, board
from tests.screens.conftest import Opened, idle
from tests.screens.developed import SHOP, Shop, developed

pytestmark = pytest.mark.slow
Snapshot = Callable[[App[Any]], None]


def run(opened: Opened, shop: Shop, test: Any, **options: Any) -> None:
    asyncio.run(board(opened, shop, test, **options))


def select(shown: Board, kind: Any, key: str) -> None:
    shown.screen.canvas.select(Hit(kind, key))


def test_a_project_is_a_picture(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test)


def test_the_whole_way_of_what_is_selected_is_drawn_though_others_share_it(
    opened: Opened, shop: Shop
) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/docs/*" = "docs", "/blog/*" = "blog"'))
        await shown.shows("/blog/*")
        for pattern, ways in (("/docs/*", "├━━━ /docs/* ━"), ("/blog/*", "├━┓─ /docs/* ─")):
            select(shown, "edge", f"web {pattern} {pattern[1:5]}")
            await idle(shown.pilot)
            assert ways in shown.text

    run(opened, shop, test)


def test_a_small_terminal_scrolls_to_what_is_selected(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["telemetry"])
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, size=(40, 20))


def test_a_terminal_of_60_cells_shows_all_three_columns(
    opened: Opened, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["docs"])
        await shown.shows("● web", "● docs", "◆ telemetry", "ready")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, size=(60, 20))


def test_without_unicode_everything_can_be_read(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, unicode=False)


def test_rates_come_with_requests(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        for _ in range(20):
            await asyncio.to_thread(shop.get, "/docs/x")
        await shown.until(lambda: "p95" in shown.text or " ms" in shown.text)
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        await shown.until(lambda: "web/docs/* → docs   0 r/s" not in shown.text)

    run(opened, shop, test)


def test_an_edge_is_drawn_looked_at_and_written(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter")
        assert shown.screen.sheet.asking
        await shown.shows('+mounts = { "/docs/*" = "docs", "/blog/*" = "blog" } # kept')
        await shown.press("enter")
        assert shown.screen.pending == 1 and shop.manifest == SHOP
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("ctrl+s")
        assert '{ "/docs/*" = "docs", "/blog/*" = "blog" } # kept' in shop.manifest
        assert shown.screen.pending == 0
        await shown.until(lambda: "+ /blog/*" not in shown.text and "/blog/*" in shown.text)

    run(opened, shop, test)


def test_a_written_edge_answers_requests(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter", "ctrl+s")
        (shop.root / "site" / "blog").mkdir()
        (shop.root / "site" / "blog" / "y").write_text("from the blog")
        await asyncio.to_thread(shop.answers, "/blog/y", "from the blog")

    run(opened, shop, test)


def test_a_target_that_may_not_be_one_says_why(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "node", "docs")
        await shown.press("c", "up")
        assert shown.screen.canvas.aim == "web"
        assert "docs → web   that would go round in a circle: docs → web → docs" in shown.text
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("enter")
        assert not shown.screen.sheet.asking
        await shown.press("escape")
        assert shown.screen.canvas.aim is None

    run(opened, shop, test)


def test_a_pattern_that_is_none_says_so_and_stays_to_be_mended(
    opened: Opened, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", *["backspace"] * 8, "b", "enter")
        assert shown.screen.sheet.asking and shown.screen.pending == 0
        await shown.shows('the path "b" does not start with /')
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("escape")
        assert not shown.screen.sheet.display and shop.manifest == SHOP

    run(opened, shop, test)


def test_an_edge_goes_and_comes_back(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "d")
        await shown.shows('-mounts = { "/docs/*" = "docs" } # kept')
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("ctrl+s")
        assert '"/docs/*"' not in shop.manifest
        await shown.press("u")
        await shown.shows('"/docs/*" = "docs"')
        assert shown.screen.pending == 1
        await shown.press("ctrl+s")
        assert '"/docs/*" = "docs"' in shop.manifest
        await shown.press("u")
        assert shown.screen.pending == 0

    run(opened, shop, test)


def test_a_pattern_is_changed(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "e", "backspace", "x", "enter")
        assert "- /docs/*" in shown.text and "+ /docs/x" in shown.text
        await shown.press("ctrl+s")
        assert 'mounts = { "/docs/x" = "docs" } # kept' in shop.manifest

    run(opened, shop, test)


def test_edits_are_gathered_and_dropped_one_by_one(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "d")
        shown.screen.navigate(["web"])
        await shown.press("c", "tab", "enter", "enter")
        assert shown.screen.pending == 2
        await shown.shows("svc.toml  2 edits, not written yet")
        await shown.press("escape")
        assert shown.screen.pending == 1
        await shown.press("escape")
        assert shown.screen.pending == 0 and shop.manifest == SHOP

    run(opened, shop, test)


def test_an_edit_of_the_file_moves_the_edges(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/papers/*" = "docs", "/news" = "blog"'))
        await shown.until(lambda: "/papers/*" in shown.text and "/news" in shown.text)
        assert "/docs/*" not in shown.text

    run(opened, shop, test)


def test_edits_stay_when_the_file_is_changed_meanwhile(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter")
        shop.write(SHOP.replace("What people see", "What all see"))
        await shown.press("ctrl+s")
        if shown.screen.pending:  # it came before the Board had looked at the file again
            await shown.press("ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest and "What all see" in shop.manifest

    run(opened, shop, test)


def test_edits_that_the_changed_file_does_not_allow_stay_to_be_seen(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter")
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/blog/*" = "docs"'))
        await shown.shows("web has docs mounted at /blog/* already")
        await shown.press("ctrl+s")
        assert shown.screen.pending == 1
        await shown.press("escape")
        assert shown.screen.pending == 0

    run(opened, shop, test)


def test_a_broken_file_is_told_of_and_the_picture_stays(
    opened: Opened, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["docs"])
        shop.write(SHOP.replace('lane = "static"', 'lane = "statik"', 1))
        await shown.shows("svc.toml line 6")
        assert "docs" in shown.text
        await idle(shown.pilot)
        snapshot(shown.app)
        shop.write(SHOP)
        await shown.until(lambda: "svc.toml line 6" not in shown.text)

    run(opened, shop, test)


def test_a_line_to_a_resource_that_goes_is_left(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c")
        assert shown.screen.canvas.aim == "blog"
        shop.write(SHOP.partition("[resource.blog]")[0])
        await shown.until(lambda: "blog" not in shown.text)
        assert shown.screen.canvas.aim is None
        await shown.press("c", "enter", "enter")
        assert shown.screen.pending == 1

    run(opened, shop, test)


def test_a_question_keeps_the_keys_until_it_is_answered(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "tab", "x")
        await shown.shows('"/blog/*x"')
        await shown.press("escape", "c")
        assert shown.screen.canvas.aim == "blog"

    run(opened, shop, test)


def test_without_mounts_and_with_one_resource_it_says_what_to_do(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('mounts = { "/docs/*" = "docs" } # kept', ""))
        await shown.shows("No mounts yet. Press c")
        shop.write("".join(SHOP.partition('mounts = { "/docs/*" = "docs" } # kept')[:1]))
        await shown.shows("One Resource. Add a table [resource.NAME]")

    run(opened, shop, test)


def test_enter_tells_all_of_a_resource_and_opens_doors(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["docs"])
        await shown.press("enter")
        assert "mounted at   web:/docs/*" in shown.text and "30 s a run, 128 MB of memory" in shown.text
        await shown.press("L")
        await shown.press("escape")
        assert "mounted at" not in shown.text
        shown.screen.navigate(["tables"])
        await shown.press("enter")
        shown.screen.navigate(["telemetry"])
        await shown.press("enter")
        assert shown.app.visits == [("logs", "resource:docs"), ("tables",), ("logs",)]

    run(opened, shop, test)


def test_a_failed_build_is_told_in_full(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        broken = 'build = "echo site/index.html:1 is odd >&2; exit 3"\noutput = "site"'
        shop.write(SHOP.replace('output = "site"', broken, 1))
        await shown.shows("build failed")
        shown.screen.navigate(["web"])
        await shown.press("enter")
        await shown.shows("build failed; the version before it serves")
        assert "site/index.html:1 is odd" in shown.text

    run(opened, shop, test)


def test_the_address_is_copied_that_of_a_private_resource_by_its_mount(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("y")
        assert shown.app.clipboard == f"http://web--shop.localhost:{shop.port}/"
        shown.screen.navigate(["docs"])
        await shown.press("y")
        assert shown.app.clipboard == f"http://web--shop.localhost:{shop.port}/docs/"

    run(opened, shop, test)


def test_an_edge_is_drawn_with_the_mouse(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        picture = shown.screen.canvas.picture
        assert picture is not None
        web, blog = (picture.placed.boxes[name] for name in ("web", "blog"))
        canvas = shown.screen.canvas
        await shown.pilot.mouse_down(canvas, offset=(web.x + 3, web.y + 2))
        await shown.pilot.hover(canvas, offset=(web.x + 3, web.y + web.height))
        await idle(shown.pilot)
        await shown.pilot.hover(canvas, offset=(blog.x + 3, blog.y + 2))
        await idle(shown.pilot)
        assert canvas.aim == "blog"
        await shown.pilot.mouse_up(canvas, offset=(blog.x + 3, blog.y + 2))
        await idle(shown.pilot)
        await shown.press("enter", "ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest

    run(opened, shop, test)


def test_clicks_select_and_double_clicks_open(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        picture = shown.screen.canvas.picture
        assert picture is not None
        box, route = picture.placed.boxes["docs"], picture.placed.routes["web /docs/* docs"]
        await shown.pilot.click(shown.screen.canvas, offset=route.label_at)
        await idle(shown.pilot)
        assert shown.screen.canvas.selected == Hit("edge", "web /docs/* docs")
        await shown.pilot.click(shown.screen.canvas, offset=(box.x + 3, box.y + 2), times=2)
        await idle(shown.pilot)
        assert shown.screen.canvas.selected == Hit("node", "docs") and "limits" in shown.text

    run(opened, shop, test)


def test_edits_outlive_an_engine_that_ends(opened: Opened, root: Path, tmp_path: Path) -> None:
    engines: list[Shop] = []
    place = ConnectionInfo("shop", "dev", "")
    link = ProjectClient(place, lambda: Client(engines[-1].url, engines[-1].token, 60.0))

    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter")
        assert shown.screen.pending == 1
        await asyncio.to_thread(running.close)
        await shown.press("ctrl+s")
        await shown.until(lambda: link.state == "lost")
        assert shown.screen.pending == 1 and shop_text(root) == SHOP and "/blog/*" in shown.text
        engines.append(await asyncio.to_thread(running.enter_context, developed(root, tmp_path / "cache")))
        await asyncio.to_thread(link.reconnect)
        shown.screen.link_changed()
        await shown.press("ctrl+s")
        await shown.until(lambda: '"/blog/*" = "blog"' in shop_text(root))

    with ExitStack() as running:
        engines.append(running.enter_context(developed(root, tmp_path / "cache")))
        asyncio.run(board(opened, link, test))


def shop_text(root: Path) -> str:
    return (root / "svc.toml").read_text()
