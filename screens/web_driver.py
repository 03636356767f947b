"""The Console's terminal where a browser is one: it ends with the server that speaks with the browser."""

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


def _write(number: int, data: bytes) -> int:
    """Write to whoever reads; where nobody does, the Console ends, and what it shows is for nobody."""
    with contextlib.suppress(BrokenPipeError):
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]
    return len(data)
