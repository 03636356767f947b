"""The Board of a real project: diagram, edits of mounts, and undo."""

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
from tests.screens.dev_project import SHOP, Shop, developed

pytestmark = pytest.mark.slow
Snapshot = Callable[[App[Any]], None]


def run(opened: Opened, shop: Shop, test: Any, **options: Any) -> None:
    asyncio.run(board(opened, shop, test, **options))


def select(shown: Board, kind: Any, key: str) -> None:
    shown.screen.canvas.select(Hit(kind, key))


def test_board_shows_project_as_diagram(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test)


def test_selected_edge_highlights_complete_route_on_shared_trunk(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/docs/*" = "docs", "/blog/*" = "blog"'))
        await shown.shows("/blog/*")
        for pattern, ways in (("/docs/*", "├━━━ /docs/* ━"), ("/blog/*", "├━┓─ /docs/* ─")):
            select(shown, "edge", f"web {pattern} {pattern[1:5]}")
            await idle(shown.pilot)
            assert ways in shown.text

    run(opened, shop, test)


def test_small_terminal_scrolls_to_selection(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["telemetry"])
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, size=(40, 20))


def test_terminal_of_60_cells_shows_all_three_columns(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["docs"])
        await shown.shows("● web", "● docs", "◆ telemetry", "ready")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, size=(60, 20))


def test_board_in_ascii_terminal(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        snapshot(shown.app)

    run(opened, shop, test, unicode=False)


def test_requests_update_rates(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        for _ in range(20):
            await asyncio.to_thread(shop.get, "/docs/x")
        await shown.until(lambda: "p95" in shown.text or " ms" in shown.text)
        select(shown, "edge", "web /docs/* docs")
        await idle(shown.pilot)
        await shown.until(lambda: "web/docs/* → docs   0 r/s" not in shown.text)

    run(opened, shop, test)


def test_connect_previews_and_saves_mount(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter")
        assert shown.screen.panel.prompting
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


def test_saved_mount_serves_requests(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter", "ctrl+s")
        (shop.root / "site" / "blog").mkdir()
        (shop.root / "site" / "blog" / "y").write_text("from the blog")
        await asyncio.to_thread(shop.answers, "/blog/y", "from the blog")

    run(opened, shop, test)


def test_invalid_target_shows_reason(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
    async def test(shown: Board) -> None:
        select(shown, "node", "docs")
        await shown.press("c", "up")
        assert shown.screen.canvas.aim == "web"
        assert "docs → web   this would create a cycle: docs → web → docs" in shown.text
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("enter")
        assert not shown.screen.panel.prompting
        await shown.press("escape")
        assert shown.screen.canvas.aim is None

    run(opened, shop, test)


def test_invalid_pattern_shows_error_and_stays_editable(
    opened: Opened, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", *["backspace"] * 8, "b", "enter")
        assert shown.screen.panel.prompting and shown.screen.pending == 0
        await shown.shows('the path "b" does not start with /')
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("escape")
        assert not shown.screen.panel.display and shop.manifest == SHOP

    run(opened, shop, test)


def test_removed_mount_is_restored_by_undo(opened: Opened, shop: Shop, snapshot: Snapshot) -> None:
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


def test_pattern_edit_changes_mount(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "e", "backspace", "x", "enter")
        assert "- /docs/*" in shown.text and "+ /docs/x" in shown.text
        await shown.press("ctrl+s")
        assert 'mounts = { "/docs/x" = "docs" } # kept' in shop.manifest

    run(opened, shop, test)


def test_back_drops_edits_one_by_one(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "d")
        shown.screen.navigate(["web"])
        await shown.press("c", "tab", "enter", "enter")
        assert shown.screen.pending == 2
        await shown.shows("svc.toml: 2 unsaved edits")
        await shown.press("escape")
        assert shown.screen.pending == 1
        await shown.press("escape")
        assert shown.screen.pending == 0 and shop.manifest == SHOP

    run(opened, shop, test)


def test_file_change_updates_edges(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/papers/*" = "docs", "/news" = "blog"'))
        await shown.until(lambda: "/papers/*" in shown.text and "/news" in shown.text)
        assert "/docs/*" not in shown.text

    run(opened, shop, test)


def test_edits_survive_file_change(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter")
        shop.write(SHOP.replace("What people see", "What all see"))
        await shown.press("ctrl+s")
        if shown.screen.pending:  # This response arrived before the Board polled the changed file.
            await shown.press("ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest and "What all see" in shop.manifest

    run(opened, shop, test)


def test_edits_invalid_after_file_change_stay_visible(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "enter")
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/blog/*" = "docs"'))
        await shown.shows("web has docs mounted at /blog/* already")
        await shown.press("ctrl+s")
        assert shown.screen.pending == 1
        await shown.press("escape")
        assert shown.screen.pending == 0

    run(opened, shop, test)


def test_invalid_manifest_shows_banner_and_last_diagram(
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


def test_connecting_stops_when_resource_disappears(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c")
        assert shown.screen.canvas.aim == "blog"
        shop.write(SHOP.partition("[resource.blog]")[0])
        await shown.until(lambda: "blog" not in shown.text)
        assert shown.screen.canvas.aim is None
        await shown.press("c", "enter", "enter")
        assert shown.screen.pending == 1

    run(opened, shop, test)


def test_open_prompt_receives_all_keys(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("c", "enter", "tab", "x")
        await shown.shows('"/blog/*x"')
        await shown.press("escape", "c")
        assert shown.screen.canvas.aim == "blog"

    run(opened, shop, test)


def test_hint_without_mounts_and_with_one_resource(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shop.write(SHOP.replace('mounts = { "/docs/*" = "docs" } # kept', ""))
        await shown.shows("No mounts yet. Press c")
        shop.write("".join(SHOP.partition('mounts = { "/docs/*" = "docs" } # kept')[:1]))
        await shown.shows("One resource. Add a table [resource.NAME]")

    run(opened, shop, test)


def test_enter_opens_resource_details_and_doors(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        shown.screen.navigate(["docs"])
        await shown.press("enter")
        assert (
            "mounted at   web:/docs/*" in shown.text and "30 s per request, 128 MiB of memory" in shown.text
        )
        await shown.press("L")
        await shown.press("escape")
        assert "mounted at" not in shown.text
        shown.screen.navigate(["tables"])
        await shown.press("enter")
        shown.screen.navigate(["telemetry"])
        await shown.press("enter")
        assert shown.app.visits == [("logs", "resource:docs"), ("tables",), ("logs",)]

    run(opened, shop, test)


def test_failed_build_shows_compiler_output(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        broken = 'build = "echo site/index.html:1 is odd >&2; exit 3"\noutput = "site"'
        shop.write(SHOP.replace('output = "site"', broken, 1))
        await shown.shows("build failed")
        shown.screen.navigate(["web"])
        await shown.press("enter")
        await shown.shows("build failed; the previous version is serving")
        assert "site/index.html:1 is odd" in shown.text

    run(opened, shop, test)


def test_copy_address_of_private_resource_uses_its_mount(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        await shown.press("y")
        assert shown.app.clipboard == f"http://web--shop.localhost:{shop.port}/"
        shown.screen.navigate(["docs"])
        await shown.press("y")
        assert shown.app.clipboard == f"http://web--shop.localhost:{shop.port}/docs/"

    run(opened, shop, test)


def test_mouse_drag_connects_nodes(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        diagram = shown.screen.canvas.diagram
        assert diagram is not None
        web, blog = (diagram.layout.boxes[name] for name in ("web", "blog"))
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


def test_click_selects_and_double_click_opens(opened: Opened, shop: Shop) -> None:
    async def test(shown: Board) -> None:
        diagram = shown.screen.canvas.diagram
        assert diagram is not None
        box, route = diagram.layout.boxes["docs"], diagram.layout.routes["web /docs/* docs"]
        await shown.pilot.click(shown.screen.canvas, offset=route.label_at)
        await idle(shown.pilot)
        assert shown.screen.canvas.selected == Hit("edge", "web /docs/* docs")
        await shown.pilot.click(shown.screen.canvas, offset=(box.x + 3, box.y + 2), times=2)
        await idle(shown.pilot)
        assert shown.screen.canvas.selected == Hit("node", "docs") and "limits" in shown.text

    run(opened, shop, test)


def test_edits_survive_engine_restart(opened: Opened, root: Path, tmp_path: Path) -> None:
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
