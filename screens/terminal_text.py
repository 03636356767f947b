"""Terminal text: whether it can show Unicode, the ASCII fallback, and removal of control characters."""

import locale
import os
import re
import unicodedata
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_LOCALE_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
_ASCII_LOCALES = ("C", "POSIX")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200f\u202a-\u202e\u2066-\u2069]")
"""C0, C1 and DEL; marks, embeddings, overrides and isolates (Unicode TR 9). They take no cells."""
_SIGNS = {
    **dict.fromkeys("─━╌┄┈╴╶╸╺–—−▔▁▂▄▀", "-"),
    **dict.fromkeys("│┃┊┆╵╷╹╻▌▎▏▍▕▐❚", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋", "+"),
    **dict.fromkeys("●◆•⬤█■▪", "*"),
    **dict.fromkeys("○◌◇□", "o"),
    **dict.fromkeys("→▶▸›⏵", ">"),
    **dict.fromkeys("←◀◂‹⏴", "<"),
    **dict.fromkeys("↑▲△⇧⏶", "^"),
    **dict.fromkeys("↓▼▾⏷", "v"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”„", '"'),
    "…": "~",
    "·": ".",
    "×": "x",
    "≠": "#",
    "✓": "+",
    "✗": "x",
    "⏎": ">",
    "↵": ">",
    "␣": "_",
    "⟳": "@",
    "⚷": "$",
    "⚠": "!",
    "\u00a0": " ",
}


class ControlCharFilter(LineFilter):
    """Removes control characters. Columns stay aligned, since they take no cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without control characters."""
        return [
            segment
            if segment.control or segment.text.isprintable() or not _CONTROL.search(segment.text)
            else Segment(_CONTROL.sub("", segment.text), segment.style)
            for segment in segments
        ]


class AsciiFilter(LineFilter):
    """Replaces every character outside of ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII, at the same widths."""
        return [
            segment
            if segment.text.isascii() or segment.control
            else Segment(to_ascii(segment.text), segment.style)
            for segment in segments
        ]


def to_ascii(text: str) -> str:
    """Return ASCII text of the same width; characters without a replacement become `?`."""
    return "".join(map(_sign, text))


@lru_cache(4096)
def _sign(character: str) -> str:
    if character.isascii():
        return character
    width = cell_len(character)
    if (sign := _SIGNS.get(character)) is not None and width == 1:
        return sign
    letter = unicodedata.normalize("NFKD", character)[0]
    return letter if width == 1 and letter.isascii() and letter.isprintable() else "?" * width


def supports_unicode() -> bool:
    """Return whether the terminal displays characters outside of ASCII.

    Python replaces the C locale with C.UTF-8 and sets LC_CTYPE to it (PEP 538), which says nothing about the
    terminal. So LANG decides in that case. Without any of the variables, Unicode is assumed.
    """
    values = [value for name in _LOCALE_VARIABLES if (value := os.environ.get(name))]
    if values == ["C.UTF-8", *values[1:]] and len(values) > 1 and values[1] in _ASCII_LOCALES:
        return False
    return locale.getencoding().replace("-", "").lower() == "utf8"
