"""Styles of a terminal for the tones of the Console."""

from collections.abc import Iterable, Sequence

from svc_tui.terminal.stdout import Styled

_STYLES = {
    "accent": "cyan",
    "bad": "red",
    "good": "green",
    "notice": "blue",
    "orange": "yellow",
    "teal": "cyan",
    "violet": "magenta",
    "warn": "yellow",
}


def toned(lines: Iterable[Sequence[tuple[str, str]]]) -> list[Styled]:
    """Return lines of the Console for a terminal."""
    return [[(text, _STYLES.get(tone, tone)) for text, tone in line] for line in lines]
