"""Styles of tones and of components, for widgets that render their own lines."""

from collections.abc import Iterable

from rich.style import Style
from textual.content import Content
from textual.style import Style as VisualStyle
from textual.widget import Widget

from screens.widgets.rows import Line

TONE_STYLES: dict[str, str] = {
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


class ComponentStyles:
    """Rich styles of tones and of a widget's components, cached until `clear`.

    Translucent colors are blended with the background. Textual's partial styles skip that, so dim text would
    appear at full brightness.
    """

    def __init__(self, widget: Widget, prefix: str = "") -> None:
        """Create the cache. `prefix` is the common prefix of the component names, as in `rows--`."""
        self._widget = widget
        self._prefix = prefix
        self._styles: dict[str, Style] = {}

    def __call__(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self._resolve(name)
        return self._styles[name]

    def clear(self) -> None:
        self._styles.clear()

    def _resolve(self, name: str) -> Style:
        base, color, background = self._widget.background_colors[1], None, None
        if name in TONE_STYLES:
            tone = VisualStyle.parse(TONE_STYLES[name])
            fill, hue, text_style, auto = tone.background, tone.foreground, Style(bold=tone.bold), False
        else:
            styles = self._widget.get_component_styles(f"{self._prefix}{name}")
            fill = styles.background if styles.has_rule("background") else None
            hue = styles.color if styles.has_rule("color") else None
            text_style, auto = styles.text_style, styles.auto_color
        if fill is not None and fill.a > 0:
            base += fill
            background = base.rich_color
        if hue is not None and hue.a > 0:
            color = (base + (base.get_contrast_text(hue.a) if auto else hue)).rich_color
        return Style(color=color, bgcolor=background) + text_style


def to_content(lines: Iterable[Line]) -> Content:
    return Content("\n").join(
        Content.assemble(*((text, TONE_STYLES[tone]) for text, tone in line)) for line in lines
    )
