"""One browser's Console: a process of its own, which ends with the connection, by force where it must.

Owns the process. What goes between it and the page is textual-serve's protocol.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence

from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

END_SECONDS = 5.0
"""How long a Console has to end by itself."""


class Visit(AppService):
    """The Console of one open page."""

    def __init__(
        self,
        command: Sequence[str],
        write_bytes: Callable[[bytes], Awaitable[None]],
        write_text: Callable[[str], Awaitable[None]],
        close: Callable[[], Awaitable[object]],
    ) -> None:
        """`command` is the program and its arguments; what it shows goes to the page, which `close` ends."""

        async def closed() -> None:
            await close()

        super().__init__(
            command[0],
            write_bytes=write_bytes,
            write_str=write_text,
            close=closed,
            download_manager=DownloadManager(),
        )
        self._command = command

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

    async def end(self) -> None:
        """Have the process end, by force where it does not, and close the page's connection."""
        process = self._process
        if process is None:
            return
        # Cancelling would not do: textual-serve's own task swallows it.
        ending = asyncio.create_task(self._end_by_itself(process))
        if not (await asyncio.wait({ending}, timeout=END_SECONDS))[0]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await ending
        await self.remote_close()

    async def _end_by_itself(self, process: Process) -> None:
        await self.stop()
        self.stdin.close()
        await process.wait()
