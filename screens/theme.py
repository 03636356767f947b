"""Themes of the Console, dark and light: dim structure, bright changes and errors.

`primary` is for the selection and keys, `accent` for Doors, `secondary` for names.
"""

from dataclasses import replace
from typing import Any

from textual.theme import Theme

YELLOW, ORANGE = "#b08a2e", "#c4703d"
"""Hues between light and dark, readable on the background of every theme."""
DARK = Theme(
    name="svc-dark",
    primary="#7aa2f7",
    secondary="#73c9c4",
    accent="#bb9af7",
    success="#9ece6a",
    warning="#e0af68",
    error="#f7768e",
    foreground="#c8d0e8",
    background="#12141c",
    surface="#171a24",
    panel="#1c202c",
    dark=True,
    variables={
        "footer-background": "#171a24",
        "footer-key-foreground": "#7aa2f7",
        "footer-description-foreground": "#8a93ad",
        "scrollbar": "#2a3044",
        "scrollbar-background": "#12141c",
        "scrollbar-corner-color": "#12141c",
    },
)
LIGHT = Theme(
    name="svc-light",
    primary="#2455c3",
    secondary="#0b6f6c",
    accent="#7340b5",
    success="#35702b",
    warning="#8a5a00",
    error="#b3203f",
    foreground="#2a2f3d",
    background="#fbfbfd",
    surface="#f2f3f7",
    panel="#e8eaf1",
    dark=False,
    variables={
        "footer-background": "#f2f3f7",
        "footer-key-foreground": "#2455c3",
        "footer-description-foreground": "#5a6275",
    },
)
THEMES = (DARK, LIGHT)


_STANDARD_DARK = {
    "primary": "#55ffff",
    "secondary": "#00aaaa",
    "accent": "#ff55ff",
    "success": "#55ff55",
    "warning": "#ffff55",
    "error": "#ff5555",
    "foreground": "#aaaaaa",
    "background": "#000000",
    "surface": "#000000",
    "panel": "#555555",
}
_STANDARD_LIGHT = {
    "primary": "#0000aa",
    "secondary": "#00aaaa",
    "accent": "#aa00aa",
    "success": "#00aa00",
    "warning": "#aa5500",
    "error": "#aa0000",
    "foreground": "#000000",
    "background": "#ffffff",
    "surface": "#ffffff",
    "panel": "#aaaaaa",
}
"""Colors of a terminal of 16 colors, which would show pastel hues as gray."""


def adapted(theme: Theme, color_system: str | None) -> Theme:
    """Return a theme for a terminal; `color_system` is `truecolor`, `256`, `standard` or None."""
    if color_system == "standard":
        return _with_standard_hues(theme)
    return _with_gray_surfaces(theme) if color_system == "256" else theme


def _with_standard_hues(theme: Theme) -> Theme:
    colors: dict[str, Any] = dict(_STANDARD_DARK if theme.dark else _STANDARD_LIGHT)
    texts = ("primary", "secondary", "accent", "success", "warning", "error")
    variables = {
        **{f"text-{name}": colors[name] for name in texts},
        "footer-background": colors["surface"],
        "footer-key-foreground": colors["primary"],
        "footer-description-foreground": colors["foreground"],
    }
    return replace(theme, **colors, variables=variables)


def _with_gray_surfaces(theme: Theme) -> Theme:
    """Return a theme for a terminal of 256 colors, which would show different surfaces as one."""
    grays = ("#121212", "#1c1c1c", "#262626") if theme.dark else ("#ffffff", "#eeeeee", "#e4e4e4")
    background, surface, panel = grays
    variables = {
        **theme.variables,
        "footer-background": surface,
        "scrollbar": "#3a3a3a" if theme.dark else "#bcbcbc",
        "scrollbar-background": background,
        "scrollbar-corner-color": background,
    }
    return replace(theme, background=background, surface=surface, panel=panel, variables=variables)
