"""Browser driver of the Console. It exits with the web server, and redraws for a page that takes over."""

import contextlib
import os
from functools import partial
from typing import Any

from textual.app import App
from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class BrowserDriver(WebDriver):
    """Textual's web driver, which also exits when its input is closed."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._write = partial(_write, self.fileno)

    def run_input_thread(self) -> None:
        """Read input until it is closed, then exit."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(ExitApp())

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Handle a control message of the server; `show` attaches another page."""
        if packet_type == "show":
            super().on_meta("resize", payload)
            self._app.call_later(self._restore_screen)
        else:
            super().on_meta(packet_type, payload)

    def send_pending(self, edits: int) -> None:
        """Send the number of edits that would be lost by exiting."""
        self.write_meta({"type": "pending", "edits": edits})

    def send_download(self, name: str) -> None:
        """Send the name of a file in the folder of downloads, which the browser then downloads."""
        self.write_meta({"type": "download", "name": name})

    def _restore_screen(self) -> None:
        """Initialize the terminal of a new page and redraw everything."""
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self._app.refresh(layout=True)


def _write(number: int, data: bytes) -> int:
    """Write all of `data`; ignore a closed pipe, since the Console is exiting."""
    with contextlib.suppress(BrokenPipeError):
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]
    return len(data)
