"""Styles of tones, and component styles of widgets that render their own lines."""

from collections.abc import Iterable

from rich.style import Style
from textual.content import Content
from textual.widget import Widget

from screens.widgets.rows import Line, Tone

TONE_STYLES: dict[Tone, str] = {
    "": "",
    "bold": "bold",
    "dim": "$foreground 60%",
    "faint": "$foreground 20%",
    "accent": "$primary",
    "good": "$text-success",
    "notice": "$text-primary",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "match": "bold $background on $warning",
    "violet": "$accent",
    "teal": "$secondary",
    "yellow": "#b08a2e",  # between light and dark, as the next one: readable on every background
    "orange": "#c4703d",
}
"""The style of each tone: `bold`, a color, and the background after `on`."""


def tone_rules(widget: str, prefix: str) -> str:
    """Return the CSS of a widget's component classes for all tones, as in `rows--good`."""
    return "\n".join(
        f"{widget} > .{prefix}--{tone} {{ {_declarations(style)} }}"
        for tone, style in TONE_STYLES.items()
        if tone
    )


def _declarations(style: str) -> str:
    text, _, background = style.partition(" on ")
    color = text.removeprefix("bold").strip()
    parts = ["text-style: bold"] if text.startswith("bold") else []
    parts += [f"color: {color}"] if color else []
    parts += [f"background: {background}"] if background else []
    return "; ".join(parts) + ";"


class ComponentStyles:
    """Rich styles of a widget's components, cached until `clear`.

    Translucent colors are blended with the background. Textual's partial styles skip that, so dim text would
    appear at full brightness.
    """

    def __init__(self, widget: Widget, prefix: str) -> None:
        """Create the cache. `prefix` is the common prefix of the component names, as in `rows--`."""
        self._widget = widget
        self._prefix = prefix
        self._styles: dict[str, Style] = {}

    def __call__(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self._resolve(f"{self._prefix}{name}")
        return self._styles[name]

    def clear(self) -> None:
        self._styles.clear()

    def _resolve(self, component: str) -> Style:
        styles = self._widget.get_component_styles(component)
        base, color, background = self._widget.background_colors[1], None, None
        if styles.has_rule("background") and styles.background.a > 0:
            base += styles.background
            background = base.rich_color
        if styles.has_rule("color") and styles.color.a > 0:
            foreground = base.get_contrast_text(styles.color.a) if styles.auto_color else styles.color
            color = (base + foreground).rich_color
        return Style(color=color, bgcolor=background) + styles.text_style


def to_content(lines: Iterable[Line]) -> Content:
    return Content("\n").join(
        Content.assemble(*((text, TONE_STYLES[tone]) for text, tone in line)) for line in lines
    )
