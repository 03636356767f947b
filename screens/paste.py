"""Fast bracketed paste: the parser handles a paste as a whole.

Textual parses a paste character by character, so 10 MB would block the keyboard for a minute.
"""

from collections.abc import Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver, web_driver
from textual.message import Message

BEGIN, END = "\x1b[200~", "\x1b[201~"
MAX_LINE_PASTE = 64 * 1024
"""Maximum paste into an input line, in characters."""
MAX_TEXT_PASTE = 1 << 20
"""Maximum paste into a text area, in characters. It takes about a second to insert."""


class PasteParser(XTermParser):
    """Textual's terminal parser with a fast path between the paste marks."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._before = ""
        """The last characters before a paste: its start mark may be split between two reads."""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of some input; empty input ends the stream."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                recent = self._before + data
                at = recent.find(BEGIN)
                if at < 0:
                    self._before = recent[1 - len(BEGIN) :]
                    yield from super().feed(data)
                    return
                end = at + len(BEGIN) - len(self._before)
                yield from super().feed(data[:end])
                self._before, self._pasted, data = "", [], data[end:]
                continue
            tail = self._pasted.pop() if self._pasted else ""
            text, mark, rest = (tail + data).partition(END)
            if not mark:
                self._pasted += [text[: -len(END)], text[-len(END) :]]
                return
            pasted, self._pasted, data = "".join([*self._pasted, text]), None, rest
            # The base parser has received only the marks and reports an empty paste.
            yield from (event for event in super().feed(END) if not isinstance(event, events.Paste))
            yield events.Paste(pasted.replace("\x00", ""))


def install() -> None:
    """Install this parser in Textual's terminal and browser drivers."""
    for driver in (linux_driver, web_driver):
        setattr(driver, XTermParser.__name__, PasteParser)
