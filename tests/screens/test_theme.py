"""Themes in terminals with few colors."""

import pytest
from rich.color import Color, ColorSystem
from textual.theme import Theme

from screens.theme import THEMES, adapted

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
