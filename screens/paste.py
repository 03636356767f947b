"""What is pasted, however much it is: taken in at once, not a character at a time as the toolkit does.

Ten megabytes would take the toolkit a minute, in which no key works. Owns how much of a paste is used.
"""

from collections.abc import Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver, web_driver
from textual.message import Message

BEGIN, END = "\x1b[200~", "\x1b[201~"
MAX_LINE_PASTE = 64 * 1024
"""Characters of a paste that a line takes."""
MAX_TEXT_PASTE = 1 << 20
"""Characters of a paste that a field of several lines takes, at which it works for a good second."""


class PasteParser(XTermParser):
    """The toolkit's parser of what terminals send, quick with what is between the marks of a paste."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._before = ""
        """The last characters in front of a paste: its mark may come in two pieces."""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of some characters; none of them: the end."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                seen = self._before + data
                at = seen.find(BEGIN)
                if at < 0:
                    self._before = seen[1 - len(BEGIN) :]
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
            # The toolkit has heard of the marks only, and tells of a paste of nothing.
            yield from (event for event in super().feed(END) if not isinstance(event, events.Paste))
            yield events.Paste(pasted.replace("\x00", ""))


def install() -> None:
    """Have the toolkit's drivers for terminals and browsers use this parser."""
    for driver in (linux_driver, web_driver):
        setattr(driver, XTermParser.__name__, PasteParser)
