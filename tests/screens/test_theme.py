"""Themes in terminals with few colors."""

import pytest
from rich.color import Color, ColorSystem
from rich.console import Console
from textual.app import ComposeResult
from textual.theme import Theme

from screens.terminal_app import THEMES, TerminalApp, adapted
from screens.widgets.rows import LINE_COLUMNS, TextLines
from screens.widgets.virtual_list import VirtualList

HUES = ("primary", "accent", "success", "warning", "error")
SURFACES = ("background", "surface", "panel")


def numbers(theme: Theme, names: tuple[str, ...], system: ColorSystem) -> set[int | None]:
    return {Color.parse(getattr(theme, name)).downgrade(system).number for name in names}


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_hues_and_surfaces_stay_distinct_in_few_colors(theme: Theme) -> None:
    standard = adapted(theme, "standard")
    assert len(numbers(standard, HUES, ColorSystem.STANDARD)) == len(HUES)
    assert len(numbers(standard, SURFACES, ColorSystem.STANDARD)) == 2
    assert len(numbers(adapted(theme, "256"), SURFACES, ColorSystem.EIGHT_BIT)) == len(SURFACES)
    assert adapted(theme, "truecolor") is theme


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["svc-dark", "svc-light"])
async def test_cursor_in_256_colors_is_a_gray_row_with_a_cell_of_another_hue(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "color_system", "256")

    class Lists(TerminalApp[None]):
        def compose(self) -> ComposeResult:
            yield VirtualList(TextLines(), LINE_COLUMNS)

    app = Lists()
    async with app.run_test():
        app.theme = name
        rows, cell = (
            app.query_one(VirtualList).get_component_styles(f"rows--{part}").background.rgb
            for part in ("cursor", "cell")
        )
        background = Color.parse(app.current_theme.background or "").triplet
        shown = [Color.from_rgb(*each).downgrade(ColorSystem.EIGHT_BIT).number for each in (rows, cell)]
        assert len(set(rows)) == 1 and len(set(cell)) > 1 and background not in (rows, cell)
        assert len(set(shown)) == 2
