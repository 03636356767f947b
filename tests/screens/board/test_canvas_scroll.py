"""Scrolling of the Board to the selection, in a project that is larger than the screen."""

from pathlib import Path

import pytest

from tests.screens.board.board import Board, run
from tests.screens.dev_project import SHOP, Shop
from tests.support.screens import OpenApp, idle

pytestmark = pytest.mark.slow
RESOURCE = '\n[resource.part-{0:02}]\nlane = "static"\noutput = "site"\n'
LARGE = SHOP + "".join(RESOURCE.format(number) for number in range(40))


@pytest.fixture
def root(root: Path) -> Path:
    (root / "svc.toml").write_text(LARGE)
    return root


def visible(ui: Board) -> bool:
    """Return whether the canvas shows the whole selected node."""
    canvas = ui.screen.canvas
    assert canvas.selected is not None
    region = canvas._region(canvas.selected)
    return region in canvas.scrollable_content_region.at_offset(canvas.scroll_offset)


@pytest.mark.parametrize("size", [(80, 17), (120, 40)])
def test_selected_node_is_visible_in_large_project(
    open_app: OpenApp, shop: Shop, size: tuple[int, int]
) -> None:
    async def test(ui: Board) -> None:
        assert visible(ui)
        for name in ("part-39", "tables", "web"):
            ui.screen.navigate([name])
            await idle(ui.pilot)
            assert visible(ui)
            await ui.press("enter")
            assert visible(ui)
            for key in ("down", "right", "tab", "up", "escape"):
                await ui.press(key)
                assert visible(ui)

    run(open_app, shop, test, size=size)


def test_selected_node_stays_visible_when_terminal_shrinks(open_app: OpenApp, shop: Shop) -> None:
    async def test(ui: Board) -> None:
        ui.screen.navigate(["part-30"])
        for size in ((100, 24), (60, 16), (120, 40), (80, 12)):
            await ui.pilot.resize_terminal(*size)
            await idle(ui.pilot)
            assert visible(ui)

    run(open_app, shop, test)
