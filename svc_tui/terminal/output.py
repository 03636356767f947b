"""The only writer of stdout: data that another program may read.

Owns colour on stdout and what a closed pipe means: success.
"""

import json
import os
import sys
from functools import cache
from typing import Any

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

_console = Console(highlight=False, soft_wrap=True)
# What a guest prints must not move the cursor or recolour the terminal of whoever reads it.
_CONTROL = {code: "\ufffd" for code in [*range(32), *range(127, 160)] if code not in (9, 10)}
_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}


def set_color(mode: str) -> None:
    """Choose `auto` (a terminal without NO_COLOR), `always` or `never`."""
    global _console
    _console = Console(
        highlight=False,
        soft_wrap=True,
        force_terminal=True if mode == "always" else None,
        no_color=True if mode == "never" else None,
    )


def line(text: Text | str = "") -> None:
    """Write one line."""
    try:
        _console.print(text, markup=False)
    except BrokenPipeError:
        closed_pipe()


def styled(pieces: list[tuple[str, str]]) -> None:
    """Write one line made of (text, style) pieces: the quick way, for lines that come by the thousand."""
    system = None if _console.no_color else _SYSTEMS.get(_console.color_system or "")
    line = "".join(
        _style(style).render(text, color_system=system) if style and system else text
        for text, style in ((text.translate(_CONTROL), style) for text, style in pieces)
    )
    try:
        _console.file.write(line + "\n")
        _console.file.flush()
    except BrokenPipeError:
        closed_pipe()


@cache
def _style(name: str) -> Style:
    return Style.parse(name)


def data(value: Any) -> None:
    """Write one JSON document on a line."""
    line(json.dumps(value, ensure_ascii=False))


def closed_pipe() -> None:
    """End the program well: the reader has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)
