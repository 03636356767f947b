"""How the parts of a widget look that draws its own lines: its component styles, over its background."""

from rich.style import Style
from textual.widget import Widget


class ComponentStyles:
    """What each component style adds to a widget's own; worked out once, until `clear`.

    Translucent colours are mixed with what is below them. The toolkit's partial styles leave that out, so
    that a dim text is as bright as any.
    """

    def __init__(self, widget: Widget, prefix: str) -> None:
        """`prefix` is what the names of the components begin with: `rows--`."""
        self._widget = widget
        self._prefix = prefix
        self._styles: dict[str, Style] = {}

    def __call__(self, name: str) -> Style:
        """Return the style of a component."""
        if name not in self._styles:
            self._styles[name] = self._resolve(f"{self._prefix}{name}")
        return self._styles[name]

    def clear(self) -> None:
        """Work all out again: the theme has changed."""
        self._styles.clear()

    def _resolve(self, component: str) -> Style:
        styles = self._widget.get_component_styles(component)
        below, color, background = self._widget.background_colors[1], None, None
        if styles.has_rule("background") and styles.background.a > 0:
            below += styles.background
            background = below.rich_color
        if styles.has_rule("color") and styles.color.a > 0:
            own = below.get_contrast_text(styles.color.a) if styles.auto_color else styles.color
            color = (below + own).rich_color
        return Style(color=color, bgcolor=background) + styles.text_style
