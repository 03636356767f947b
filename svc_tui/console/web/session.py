"""One browser's Console: a process of its own, and the page that shows it, or none while edits wait for one.

Owns the process. What goes between it and the page is textual-serve's protocol.
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
"""How long a Console has to end by itself."""


class BrowserSession(AppService):
    """The Console of one open page, or of one that went while edits were pending."""

    def __init__(self, command: Sequence[str]) -> None:
        """`command` is the program and its arguments."""
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
        """Show it in a page: begun there, or taken up as another page left it."""
        self._page = page
        if self._process is None:
            await self.start(width, height)
        else:
            await self._send_pending()
            await self.send_meta({"type": "show", "width": width, "height": height})

    def detach(self) -> None:
        """Hear that the page has gone."""
        self._page = None

    @property
    def pending(self) -> int:
        """How many edits would be lost by ending it."""
        return self._pending if self._task is not None and not self._task.done() else 0

    async def on_meta(self, data: bytes) -> None:
        """Take what the Console says besides what it shows."""
        said = json.loads(data)
        if said["type"] == "pending":
            self._pending = int(said["edits"])
            await self._send_pending()
        else:
            if said["type"] == "exit":
                self._pending = 0  # whoever left it was asked
            await super().on_meta(data)

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        # Whatever the terminal is in which the server was started: a browser has all characters.
        return super()._build_environment(width, height) | {
            "TEXTUAL_DRIVER": "screens.web_driver:BrowserDriver",
            "LC_ALL": "C.UTF-8",
        }

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start it apart from the terminal, whose ctrl+c is for the server: that ends all in order."""
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

    # What is shown while no page is there is for nobody: the next page has all of it drawn anew.

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
        """Have the process end, by force where it does not, and close the page's connection."""
        process = self._process
        if process is None:
            return
        # Cancelling would not do: textual-serve's own task swallows it.
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
