"""Conversion of styled lines to Textual content."""

from collections.abc import Iterable

from textual.content import Content

from screens.widgets.row_source import Line, Tone

_STYLES: dict[Tone, str] = {
    "": "",
    "bold": "bold",
    "dim": "$foreground 60%",
    "accent": "$accent",
    "good": "$text-success",
    "notice": "$text-primary",
    "warn": "$text-warning",
    "bad": "$text-error",
    "match": "$background on $warning",
}


def to_content(lines: Iterable[Line]) -> Content:
    """Return lines as one multi-line content."""
    return Content("\n").join(
        Content.assemble(*((text, _STYLES[tone]) for text, tone in line)) for line in lines
    )
