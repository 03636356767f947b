"""The Board of a real project: diagram, edits of mounts, and undo."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from screens.board.layout import Hit
from screens.project_client import ConnectionInfo, ProjectClient
from screens.terminal_app import to_ascii
from svc_tui.client import Client
from tests.screens.board.board import Board, board, run, select
from tests.screens.dev_project import SHOP, Shop, developed
from tests.support.screens import OpenApp, idle

pytestmark = pytest.mark.slow
Snapshot = Callable[..., None]


def test_board_shows_project_as_diagram(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        select(ui, "edge", "web /docs/* docs")
        await idle(ui.pilot)
        snapshot(ui.app)

    run(open_app, shop, test)


def test_first_keys_show_until_another_item_is_selected(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.shows("c draws a mount, enter opens, 2 tables, 3 logs")
        select(ui, "edge", "web /docs/* docs")
        await ui.pilot.pause()
        assert "enter opens, 2 tables" not in ui.text
        ui.screen.navigate(["web"])
        await ui.pilot.pause()
        assert "enter opens, 2 tables" not in ui.text

    run(open_app, shop, test, size=(120, 40))


def test_selected_edge_highlights_complete_route_on_shared_trunk(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/docs/*" = "docs", "/blog/*" = "blog"'))
        await ui.shows("/blog/*")
        for pattern, ways in (("/docs/*", "├━━━ /docs/* ━"), ("/blog/*", "├━┓─ /docs/* ─")):
            select(ui, "edge", f"web {pattern} {pattern[1:5]}")
            await idle(ui.pilot)
            assert ways in ui.text

    run(open_app, shop, test)


def test_small_terminal_scrolls_to_selection(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        ui.screen.navigate(["telemetry"])
        await idle(ui.pilot)
        snapshot(ui.app)

    run(open_app, shop, test, size=(40, 20))


def test_terminal_of_60_cells_shows_all_three_columns(
    open_app: OpenApp, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(ui: Board) -> None:
        ui.screen.navigate(["docs"])
        await ui.shows("● web", "● docs", "◆ telemetry", "ready")
        await idle(ui.pilot)
        snapshot(ui.app)

    run(open_app, shop, test, size=(60, 20))


def test_board_in_ascii_terminal(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        select(ui, "edge", "web /docs/* docs")
        await idle(ui.pilot)
        snapshot(ui.app, to_ascii)

    run(open_app, shop, test)


def test_requests_update_rates(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        for _ in range(20):
            await asyncio.to_thread(shop.get, "/docs/x")
        await ui.until(lambda: "p95" in ui.text or " ms" in ui.text)
        select(ui, "edge", "web /docs/* docs")
        await idle(ui.pilot)
        await ui.until(lambda: "web/docs/* → docs   0 r/s" not in ui.text)

    run(open_app, shop, test)


def test_connect_previews_and_saves_mount(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter")
        assert ui.screen.panel.prompting
        await ui.shows('+mounts = { "/docs/*" = "docs", "/blog/*" = "blog" } # kept')
        await ui.press("enter")
        assert ui.screen.pending == 1 and shop.manifest == SHOP
        await idle(ui.pilot)
        snapshot(ui.app)
        await ui.press("ctrl+s")
        assert '{ "/docs/*" = "docs", "/blog/*" = "blog" } # kept' in shop.manifest
        assert ui.screen.pending == 0
        await ui.until(lambda: "+ /blog/*" not in ui.text and "/blog/*" in ui.text)

    run(open_app, shop, test)


def test_saved_mount_serves_requests(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter", "ctrl+s")
        (shop.root / "site" / "blog").mkdir()
        (shop.root / "site" / "blog" / "y").write_text("from the blog")
        await asyncio.to_thread(shop.answers, "/blog/y", "from the blog")

    run(open_app, shop, test)


def test_invalid_target_shows_reason(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        select(ui, "node", "docs")
        await ui.press("c", "up")
        assert ui.screen.canvas.aim == "web"
        assert "docs → web   this would create a cycle: docs → web → docs" in ui.text
        await idle(ui.pilot)
        snapshot(ui.app)
        await ui.press("enter")
        assert not ui.screen.panel.prompting
        await ui.press("escape")
        assert ui.screen.canvas.aim is None

    run(open_app, shop, test)


def test_invalid_pattern_shows_error_and_stays_editable(
    open_app: OpenApp, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", *["backspace"] * 8, "b", "enter")
        assert ui.screen.panel.prompting and ui.screen.pending == 0
        await ui.shows('the path "b" does not start with /')
        await idle(ui.pilot)
        snapshot(ui.app)
        await ui.press("escape")
        assert not ui.screen.panel.display and shop.manifest == SHOP

    run(open_app, shop, test)


def test_removed_mount_is_restored_by_undo(open_app: OpenApp, shop: Shop, snapshot: Snapshot) -> None:
    async def test(ui: Board) -> None:
        await ui.press("tab", "d")
        await ui.shows('-mounts = { "/docs/*" = "docs" } # kept')
        await idle(ui.pilot)
        snapshot(ui.app)
        await ui.press("ctrl+s")
        assert '"/docs/*"' not in shop.manifest
        assert ui.app.messages[-1].endswith("; u takes it back, ctrl+s saves that")
        await ui.press("u")
        await ui.shows('"/docs/*" = "docs"')
        assert ui.screen.pending == 1
        await ui.press("ctrl+s")
        assert '"/docs/*" = "docs"' in shop.manifest
        assert ui.app.messages[-1].endswith("; U takes it back, ctrl+s saves that")
        await ui.press("u")
        assert ui.screen.pending == 0 and ui.app.messages[-1] == "nothing to undo"
        await ui.press("U", "ctrl+s")
        assert '"/docs/*"' not in shop.manifest
        await ui.press("u", "ctrl+s")
        assert '"/docs/*" = "docs"' in shop.manifest

    run(open_app, shop, test)


def test_redo_restores_dropped_edits_and_selection(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("U")
        assert ui.app.messages[-1] == "nothing to redo"
        await ui.press("tab", "d", "u")
        assert ui.screen.pending == 0 and ui.screen.canvas.selected == Hit("edge", "web /docs/* docs")
        ui.screen.navigate(["web"])
        await ui.press("c", "enter", "enter")
        blog = Hit("edge", "web /blog/* blog")
        assert ui.screen.pending == 1 and ui.screen.canvas.selected == blog
        await ui.press("u")
        assert ui.screen.pending == 0 and ui.screen.canvas.selected == Hit("node", "web")
        await ui.press("U")
        await ui.shows('"/blog/*" = "blog"')
        assert ui.screen.pending == 1 and ui.screen.canvas.selected == blog
        await ui.press("U")
        assert ui.app.messages[-1] == "nothing to redo"
        await ui.press("ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest

    run(open_app, shop, test)


def test_redo_takes_back_staged_inverse_of_save(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter", "ctrl+s", "u")
        await ui.shows("1 unsaved edit", "- /blog/*")
        await ui.press("U")
        assert ui.screen.pending == 0
        assert ui.screen.canvas.selected == Hit("edge", "web /blog/* blog")
        await ui.press("u", "u", "U", "ctrl+s")
        assert shop.manifest == SHOP
        assert ui.app.messages[-1].endswith("; U takes it back, ctrl+s saves that")
        await ui.press("U", "ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest
        assert ui.app.messages[-1].endswith("; u takes it back, ctrl+s saves that")

    run(open_app, shop, test)


def test_pattern_edit_changes_mount(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("tab", "e", "backspace", "x", "enter")
        assert "- /docs/*" in ui.text and "+ /docs/x" in ui.text
        await ui.press("ctrl+s")
        assert 'mounts = { "/docs/x" = "docs" } # kept' in shop.manifest

    run(open_app, shop, test)


def test_back_drops_edits_one_by_one(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("tab", "d")
        ui.screen.navigate(["web"])
        await ui.press("c", "tab", "enter", "enter")
        assert ui.screen.pending == 2
        await ui.shows("2 unsaved edits: ctrl+s writes svc.toml")
        await ui.press("escape")
        assert ui.screen.pending == 1
        await ui.press("escape")
        assert ui.screen.pending == 0 and shop.manifest == SHOP

    run(open_app, shop, test)


def test_file_change_updates_edges(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/papers/*" = "docs", "/news" = "blog"'))
        await ui.until(lambda: "/papers/*" in ui.text and "/news" in ui.text)
        assert "/docs/*" not in ui.text

    run(open_app, shop, test)


def test_edits_survive_file_change(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter")
        shop.write(SHOP.replace("What people see", "What all see"))
        await ui.press("ctrl+s")
        if ui.screen.pending:  # This response arrived before the Board polled the changed file.
            await ui.press("ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest and "What all see" in shop.manifest

    run(open_app, shop, test)


def test_edits_invalid_after_file_change_stay_visible(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter")
        shop.write(SHOP.replace('"/docs/*" = "docs"', '"/blog/*" = "docs"'))
        await ui.shows("web has docs mounted at /blog/* already")
        await ui.press("ctrl+s")
        assert ui.screen.pending == 1
        await ui.press("escape")
        assert ui.screen.pending == 0

    run(open_app, shop, test)


def test_invalid_manifest_shows_banner_and_last_diagram(
    open_app: OpenApp, shop: Shop, snapshot: Snapshot
) -> None:
    async def test(ui: Board) -> None:
        ui.screen.navigate(["docs"])
        shop.write(SHOP.replace('lane = "static"', 'lane = "statik"', 1))
        await ui.shows("svc.toml line 6")
        assert "docs" in ui.text
        await idle(ui.pilot)
        snapshot(ui.app)
        shop.write(SHOP)
        await ui.until(lambda: "svc.toml line 6" not in ui.text)

    run(open_app, shop, test)


def test_deleted_manifest_names_one_remedy(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter")
        (shop.root / "svc.toml").unlink()
        await ui.shows("svc.toml was changed by another program", "Restore svc.toml.")
        await ui.press("ctrl+s")
        assert "svc new" not in "".join([ui.text, *ui.app.messages])

    run(open_app, shop, test)


def test_staged_mount_of_a_removed_resource_is_not_drawn(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter")
        await ui.shows("1 unsaved edit", "/blog/*")
        shop.write(SHOP.partition("[resource.blog]")[0])
        await ui.shows("svc.toml was changed by another program")
        await ui.hides("● blog")
        assert ui.screen.pending == 1
        await ui.press("u")
        assert ui.screen.pending == 0

    run(open_app, shop, test)


def test_connecting_stops_when_resource_disappears(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c")
        assert ui.screen.canvas.aim == "blog"
        shop.write(SHOP.partition("[resource.blog]")[0])
        await ui.until(lambda: "blog" not in ui.text)
        assert ui.screen.canvas.aim is None
        await ui.press("c", "enter", "enter")
        assert ui.screen.pending == 1

    run(open_app, shop, test)


def test_open_prompt_receives_all_keys(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "tab", "x")
        await ui.shows('"/blog/*x"')
        await ui.press("escape", "c")
        assert ui.screen.canvas.aim == "blog"

    run(open_app, shop, test)


def test_hint_without_mounts_and_with_one_resource(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        shop.write(SHOP.replace('mounts = { "/docs/*" = "docs" } # kept', ""))
        await ui.shows("No mounts yet. Press c")
        shop.write("".join(SHOP.partition('mounts = { "/docs/*" = "docs" } # kept')[:1]))
        await ui.shows("One resource. Add a table [resource.NAME]")

    run(open_app, shop, test)


def test_mouse_drag_connects_nodes(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        diagram = ui.screen.canvas.diagram
        web, blog = (diagram.layout.boxes[name] for name in ("web", "blog"))
        canvas = ui.screen.canvas
        await ui.pilot.mouse_down(canvas, offset=(web.x + 3, web.y + 2))
        await ui.pilot.hover(canvas, offset=(web.x + 3, web.y + web.height))
        await idle(ui.pilot)
        await ui.pilot.hover(canvas, offset=(blog.x + 3, blog.y + 2))
        await idle(ui.pilot)
        assert canvas.aim == "blog"
        await ui.pilot.mouse_up(canvas, offset=(blog.x + 3, blog.y + 2))
        await idle(ui.pilot)
        await ui.press("enter", "ctrl+s")
        assert '"/blog/*" = "blog"' in shop.manifest

    run(open_app, shop, test)


def test_click_selects_and_double_click_opens(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        diagram = ui.screen.canvas.diagram
        box, route = diagram.layout.boxes["docs"], diagram.layout.routes["web /docs/* docs"]
        await ui.pilot.click(ui.screen.canvas, offset=route.label_at)
        await idle(ui.pilot)
        assert ui.screen.canvas.selected == Hit("edge", "web /docs/* docs")
        await ui.pilot.click(ui.screen.canvas, offset=(box.x + 3, box.y + 2), times=2)
        await idle(ui.pilot)
        assert ui.screen.canvas.selected == Hit("node", "docs") and "limits" in ui.text

    run(open_app, shop, test)


def test_edits_survive_engine_restart(open_app: OpenApp, root: Path, tmp_path: Path) -> None:
    engines: list[Shop] = []
    place = ConnectionInfo("shop", "dev", "")
    link = ProjectClient(place, lambda: Client(engines[-1].url, engines[-1].token, 60.0))

    async def test(ui: Board) -> None:
        await ui.press("c", "enter", "enter")
        assert ui.screen.pending == 1
        await asyncio.to_thread(running.close)
        await ui.press("ctrl+s")
        await ui.until(lambda: link.state == "lost")
        assert ui.screen.pending == 1 and shop_text(root) == SHOP and "/blog/*" in ui.text
        engines.append(await asyncio.to_thread(running.enter_context, developed(root, tmp_path / "cache")))
        await asyncio.to_thread(link.reconnect)
        ui.screen.link_changed()
        await ui.press("ctrl+s")
        await ui.until(lambda: '"/blog/*" = "blog"' in shop_text(root))

    with ExitStack() as running:
        engines.append(running.enter_context(developed(root, tmp_path / "cache")))
        asyncio.run(board(open_app, link, test))


def shop_text(root: Path) -> str:
    return (root / "svc.toml").read_text()
