"""Themes of the Console, dark and light: dim structure, bright changes and errors.

`primary` is for the selection and keys, `accent` for Doors, `secondary` for names.
"""

from dataclasses import replace

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


def with_gray_surfaces(theme: Theme) -> Theme:
    """Return the dark theme for a terminal of 256 colors, which would show all its surfaces as black."""
    background, surface, panel = "#121212", "#1c1c1c", "#262626"
    variables = {
        **theme.variables,
        "footer-background": surface,
        "scrollbar": "#3a3a3a",
        "scrollbar-background": background,
        "scrollbar-corner-color": background,
    }
    return replace(theme, background=background, surface=surface, panel=panel, variables=variables)
