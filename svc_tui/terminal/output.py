"""The only writer of stdout: data that another program may read.

Owns colour on stdout and what a closed pipe means: success.
"""

import json
import os
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

_console = Console(highlight=False, soft_wrap=True)


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


def data(value: Any) -> None:
    """Write one JSON document on a line."""
    line(json.dumps(value, ensure_ascii=False))


def closed_pipe() -> None:
    """End the program well: the reader has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)
