"""Component styles of widgets that render their own lines, blended with the background."""

from rich.style import Style
from textual.widget import Widget


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
        """Return the style of a component."""
        if name not in self._styles:
            self._styles[name] = self._resolve(f"{self._prefix}{name}")
        return self._styles[name]

    def clear(self) -> None:
        """Clear the cache after a theme change."""
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
