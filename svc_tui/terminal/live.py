"""A screen of lines on the terminal that is redrawn, with single keys."""

import os
import select
import sys
import termios
import tty
from collections.abc import Sequence
from types import TracebackType

from svc_tui.terminal import stdout
from svc_tui.terminal.stdout import Styled

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, whose longer lines are cut."""
_MAX_KEY_BYTES = 64


class LiveScreen:
    """The alternate screen, until the end of the context. It needs a terminal on stdin and stdout."""

    def __enter__(self) -> "LiveScreen":
        self._input = sys.stdin.fileno()
        self._modes = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        stdout.control(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stdout.control(_LEAVE)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._modes)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        columns, lines = os.get_terminal_size(self._input)  # The variables COLUMNS and LINES do not change.
        return columns, lines

    def draw(self, lines: Sequence[Styled]) -> None:
        """Replace the contents of the screen. What does not fit is omitted."""
        stdout.redraw(lines[: self.size[1]])

    def key(self, seconds: float) -> str:
        """Return the next key, or an empty text after a time. The end of the input is `q`."""
        if not select.select([self._input], [], [], seconds)[0]:
            return ""
        return os.read(self._input, _MAX_KEY_BYTES).decode(errors="replace") or "q"
