"""How `svc` writes to a terminal: colour or none, and no control codes from what others wrote.

Owns the choice of colour for both streams. Who may write is `output.py`'s and `diagnostics.py`'s to say.
"""

import os
import re
from typing import Literal, get_args

from rich.console import Console
from rich.text import Text

from engine.ansi import SGR

ColorMode = Literal["auto", "always", "never"]
COLOR_MODES: tuple[str, ...] = get_args(ColorMode)

_CONTROL = [*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
CONTROL_CHARS = {code: "\ufffd" for code in _CONTROL if code not in (9, 10)}
"""For `str.translate`: what a guest or a tool prints must not move the cursor, recolour the terminal, or turn
the direction of what follows.
"""
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?=\n)")


def create_console(mode: ColorMode, *, stderr: bool) -> Console:
    """Make a writer that never wraps. `auto` is colour on a terminal, unless NO_COLOR is set."""
    if mode == "never" or (mode == "auto" and os.environ.get("NO_COLOR")):
        return Console(stderr=stderr, highlight=False, soft_wrap=True, color_system=None)
    if mode == "always":
        return Console(
            stderr=stderr,
            highlight=False,
            soft_wrap=True,
            force_terminal=True,
            color_system="standard",
            no_color=False,
        )
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Return a text without escape sequences, and `�` for other control characters but tab and newline."""
    return _SEQUENCE.sub("", text).translate(CONTROL_CHARS)


def strip_control_codes(text: Text) -> Text:
    """Return a text with its styles, and `�` for control characters but tab and newline."""
    if text.plain.isprintable():
        return text
    made = text.copy()
    made.plain = text.plain.translate(CONTROL_CHARS)
    return made


def from_ansi(text: str) -> Text:
    """Return what a tool printed with its own colours, and `plain` in all else."""
    pieces = SGR.split(text)
    return Text.from_ansi("".join(piece if i % 2 else plain(piece) for i, piece in enumerate(pieces)))
