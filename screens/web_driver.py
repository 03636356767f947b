"""The Console's terminal where a browser is one: it ends with the server that speaks with the browser.

A page may go and another take its place, which knows nothing of what was shown.
"""

import contextlib
import os
from functools import partial
from typing import Any

from textual.app import App
from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class BrowserDriver(WebDriver):
    """The toolkit's driver for browsers, which also ends when nobody is at the other end."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._write = partial(_write, self.fileno)

    def run_input_thread(self) -> None:
        """Read what comes until nothing can come any more."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(ExitApp())

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Take what the server says besides keys: `show` that another page shows the Console now."""
        if packet_type == "show":
            super().on_meta("resize", payload)
            self._app.call_later(self._restore_screen)
        else:
            super().on_meta(packet_type, payload)

    def send_pending(self, edits: int) -> None:
        """Say how many edits would be lost by ending."""
        self.write_meta({"type": "pending", "edits": edits})

    def _restore_screen(self) -> None:
        """Have a terminal that was just made as it is wanted, and everything drawn."""
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self._app.refresh(layout=True)


def _write(number: int, data: bytes) -> int:
    """Write to whoever reads; where nobody does, the Console ends, and what it shows is for nobody."""
    with contextlib.suppress(BrokenPipeError):
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]
    return len(data)
