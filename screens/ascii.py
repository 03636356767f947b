"""What a terminal of ASCII is shown: each cell of the Console in a character that it has.

Owns which character stands for which. It changes no width, so columns stay columns.
"""

import unicodedata
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

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


class Ascii(LineFilter):
    """Leaves nothing but ASCII in what is shown."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII, each as wide as it was."""
        return [
            each if each.text.isascii() or each.control else Segment(ascii_of(each.text), each.style)
            for each in segments
        ]


def ascii_of(text: str) -> str:
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
