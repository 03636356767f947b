"""The details of the Board of a real project: requests, errors and addresses."""

import pytest

from tests.screens.board.board import Board, run, select
from tests.screens.dev_project import SHOP, Shop
from tests.support.screens import OpenApp

pytestmark = pytest.mark.slow


def test_tall_screen_shows_details_and_last_requests(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        shop.get("/docs/x")
        ui.screen.navigate(["docs"])
        await ui.shows("mounted at", "docs, last minute", "GET", "/docs/x", "200", "█")
        ui.screen.navigate(["tables"])
        await ui.shows("an SQLite database for each project", "called by")
        await ui.press("escape")
        assert "called by" not in ui.text
        ui.screen.navigate(["docs"])
        await ui.press("enter")
        await ui.shows("/docs/x", "limits")
        select(ui, "edge", "web /docs/* docs")
        await ui.press("d")
        await ui.shows("1 unsaved edit", '-mounts = { "/docs/*" = "docs" }')
        await ui.press("escape")
        await ui.shows("answered by")

    run(open_app, shop, test, size=(120, 40))


def test_small_screen_shows_details_after_enter(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        foot = ui.text.splitlines()[-1]
        assert "c Connect" in foot and "enter Open" in foot and "esc" not in foot
        assert "last minute" not in ui.text
        await ui.press("enter")
        await ui.shows("last minute", "limits")

    run(open_app, shop, test)


def test_enter_opens_resource_details_and_doors(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        ui.screen.navigate(["docs"])
        await ui.press("enter")
        assert "mounted at   web:/docs/*" in ui.text and "30 s per request, 128 MiB of memory" in ui.text
        await ui.press("L")
        await ui.press("escape")
        assert "mounted at" not in ui.text
        ui.screen.navigate(["tables"])
        await ui.press("enter")
        ui.screen.navigate(["telemetry"])
        await ui.press("enter")
        assert ui.app.visits == [("logs", "resource:docs"), ("tables",), ("logs",)]

    run(open_app, shop, test)


def test_failed_build_shows_compiler_output(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        broken = 'build = "echo site/index.html:1 is odd >&2; exit 3"\noutput = "site"'
        shop.write(SHOP.replace('output = "site"', broken, 1))
        await ui.shows("build failed")
        ui.screen.navigate(["web"])
        await ui.press("enter")
        await ui.shows("build failed; the previous version is serving")
        assert "site/index.html:1 is odd" in ui.text

    run(open_app, shop, test)


def test_copy_address_of_private_resource_uses_its_mount(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        await ui.press("y")
        assert ui.app.clipboard == f"http://web--shop.localhost:{shop.port}/"
        ui.screen.navigate(["docs"])
        await ui.press("y")
        assert ui.app.clipboard == f"http://web--shop.localhost:{shop.port}/docs/"

    run(open_app, shop, test)
