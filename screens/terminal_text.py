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
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0, C1 and DEL; embeddings, overrides and isolates (Unicode TR 9). They take no cells."""
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
    """Leaves out what commands a terminal. What takes a cell stays where it is."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without such characters."""
        return [
            each
            if each.control or each.text.isprintable() or not _CONTROL.search(each.text)
            else Segment(_CONTROL.sub("", each.text), each.style)
            for each in segments
        ]


class AsciiFilter(LineFilter):
    """Leaves nothing but ASCII in what is shown."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII, each as wide as it was."""
        return [
            each if each.text.isascii() or each.control else Segment(to_ascii(each.text), each.style)
            for each in segments
        ]


def to_ascii(text: str) -> str:
    """Return a text of the same width in ASCII; what nothing stands for is a question mark a cell."""
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
    """Return whether lines and signs outside of ASCII can be shown.

    Where LANG is C, Python takes C.UTF-8 instead and says so in LC_CTYPE (PEP 538), to read files by. What
    the terminal shows is what LANG says; where nothing says anything, most terminals show everything.
    """
    values = [value for name in _LOCALE_VARIABLES if (value := os.environ.get(name))]
    if values == ["C.UTF-8", *values[1:]] and len(values) > 1 and values[1] in _ASCII_LOCALES:
        return False
    return locale.getencoding().replace("-", "").lower() == "utf8"
