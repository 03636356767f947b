"""Themes of the Console, dark and light: one accent color, dim structure, bright changes and errors."""

from textual.theme import Theme

DARK = Theme(
    name="svc-dark",
    primary="#7aa2f7",
    secondary="#7dcfff",
    accent="#7aa2f7",
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
    secondary="#0f6e8c",
    accent="#2455c3",
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
