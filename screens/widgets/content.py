"""Conversion of styled lines to Textual content."""

from collections.abc import Iterable

from textual.content import Content

from screens.widgets.component_styles import TONE_STYLES
from screens.widgets.row_source import Line


def to_content(lines: Iterable[Line]) -> Content:
    """Return lines as one multi-line content."""
    return Content("\n").join(
        Content.assemble(*((text, TONE_STYLES[tone]) for text, tone in line)) for line in lines
    )
