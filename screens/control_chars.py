"""What no text may tell a terminal: characters that command it, or turn the direction of what follows.

Lists show a sign for each of them; this is for whatever else shows a text that a stranger wrote: lines and
fields in which it is edited, messages, titles. Owns which characters those are.
"""

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0, C1 and DEL; embeddings, overrides and isolates (Unicode TR 9). They take no cells."""


class Plain(LineFilter):
    """Leaves out what commands a terminal. What takes a cell stays where it is."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without such characters."""
        return [
            each
            if each.control or each.text.isprintable() or not _COMMANDS.search(each.text)
            else Segment(_COMMANDS.sub("", each.text), each.style)
            for each in segments
        ]
