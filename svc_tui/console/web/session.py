"""One browser session: a Console process and the page attached to it, by the protocol of textual-serve.

A session without a page is detached. It stays open while edits are pending, for the next page.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Sequence

from aiohttp.web import WebSocketResponse
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

EXIT_TIMEOUT_SECONDS = 5.0
"""Time for a Console process to exit before it is killed."""


class BrowserSession(AppService):
    """The Console process of one page."""

    def __init__(self, command: Sequence[str]) -> None:
        """Create a session. `command` is the program and its arguments."""
        super().__init__(
            command[0],
            write_bytes=self._write_bytes,
            write_str=self._write_text,
            close=self._close,
            download_manager=DownloadManager(),
        )
        self._command = command
        self._page: WebSocketResponse | None = None
        self._pending = 0

    async def attach(self, page: WebSocketResponse, width: int, height: int) -> None:
        """Attach a page: start the process, or show the running one on this page."""
        self._page = page
        if self._process is None:
            await self.start(width, height)
        else:
            await self._send_pending()
            await self.send_meta({"type": "show", "width": width, "height": height})

    def detach(self) -> None:
        """Detach the page: it was closed."""
        self._page = None

    @property
    def pending(self) -> int:
        """The number of edits that would be lost by closing the session."""
        return self._pending if self._task is not None and not self._task.done() else 0

    async def on_meta(self, data: bytes) -> None:
        """Handle a control message of the Console process."""
        message = json.loads(data)
        if message["type"] == "pending":
            self._pending = int(message["edits"])
            await self._send_pending()
        else:
            if message["type"] == "exit":
                self._pending = 0  # The user has confirmed the exit.
            await super().on_meta(data)

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        # The terminal of the server does not matter here: a browser displays all of Unicode.
        return super()._build_environment(width, height) | {
            "TEXTUAL_DRIVER": "screens.web_driver:BrowserDriver",
            "LC_ALL": "C.UTF-8",
        }

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the process in its own session, so that ctrl+c in the terminal reaches only the server."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,
        )
        self._stdin = self._process.stdin
        return self._process

    async def _send_pending(self) -> None:
        await self._write_text(json.dumps(["pending", self._pending]))

    # Output without an attached page is dropped: the next page requests a full redraw.

    async def _write_bytes(self, data: bytes) -> None:
        if self._page is not None:
            with contextlib.suppress(ConnectionError):
                await self._page.send_bytes(data)

    async def _write_text(self, text: str) -> None:
        if self._page is not None:
            with contextlib.suppress(ConnectionError):
                await self._page.send_str(text)

    async def _close(self) -> None:
        if self._page is not None:
            await self._page.close()

    async def close(self) -> None:
        """Stop the process, by SIGKILL after a timeout, and close the page's connection."""
        process = self._process
        if process is None:
            return
        # Cancellation would have no effect: the task of textual-serve swallows it.
        ending = asyncio.create_task(self._exit_gracefully(process))
        if not (await asyncio.wait({ending}, timeout=EXIT_TIMEOUT_SECONDS))[0]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await ending
        await self._close()

    async def _exit_gracefully(self, process: Process) -> None:
        await self.stop()
        self.stdin.close()
        await process.wait()
