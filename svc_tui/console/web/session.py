"""One browser session: a Console process and the page attached to it, by Textual's protocol of web drivers.

A session without a page is detached. It stays open while edits are pending, for the next page.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.files.temporary import temporary_folder

EXIT_TIMEOUT_SECONDS = 5.0
"""Time for a Console process to exit before it is killed."""
HEARTBEAT_SECONDS = 15.0
"""Maximum time without a frame: the regular frame prevents idle timeouts of proxies."""
MAX_UNSENT_BYTES = 1 << 20
"""Output that waits for a slow page. Above it, the Console waits."""
STALLED_SECONDS = 4 * HEARTBEAT_SECONDS
"""A page that takes no frame for this long is gone."""
MAX_TERMINAL_CELLS = 1000
DATA, TEXT = b"D", b"T"
"""Kinds of frames: terminal output, and JSON messages for the page."""
_HEAD_BYTES = 5
FOLDER = "svc-console-"
"""Prefix of the folder of a hosted Console."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a Console: what it shows, and its environment.

    `hosted` Consoles run for users of other machines: in a folder of their own, which holds their downloads.
    """

    target: Mapping[str, str]
    environ: Mapping[str, str]
    hosted: bool = False


class PageStream:
    """The frames for one page, with backpressure."""

    def __init__(self) -> None:
        self._unsent = bytearray()
        self._closed = False
        self._changed = asyncio.Condition()
        self._taken = now()

    @property
    def stalled(self) -> bool:
        return self._taken < now() - STALLED_SECONDS

    async def send(self, kind: bytes, data: bytes) -> None:
        """Add a frame; wait while the page has not taken earlier ones. After `close`, do nothing."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or len(self._unsent) < MAX_UNSENT_BYTES)
            if not self._closed:
                self._unsent += packet(kind, data)
                self._changed.notify_all()

    async def message(self, *parts: Any) -> None:
        await self.send(TEXT, json.dumps(parts).encode())

    async def close(self, message: str = "") -> None:
        """Mark the end: the page gets what was sent before, and shows a message."""
        async with self._changed:
            if message:
                self._unsent += packet(TEXT, json.dumps(["end", message]).encode())
            self._closed = True
            self._changed.notify_all()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield frames as they are added, until `close`."""
        while True:
            self._taken = now()
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await self._changed.wait_for(lambda: self._closed or self._unsent)
                unsent, self._unsent = self._unsent, bytearray()
                closed = self._closed
                self._changed.notify_all()
            yield bytes(unsent) or packet(TEXT, b'["alive"]')
            if closed:
                return


def terminal_size(size: Any) -> tuple[int, int]:
    """Return width and height in cells, limited to valid values."""
    try:
        width, height = int(size["width"]), int(size["height"])
    except (TypeError, KeyError, ValueError, OverflowError):
        return 80, 24
    return min(max(width, 1), MAX_TERMINAL_CELLS), min(max(height, 1), MAX_TERMINAL_CELLS)


def now() -> float:
    return asyncio.get_running_loop().time()


def packet(kind: bytes, data: bytes) -> bytes:
    """Return data with its kind and its length before it."""
    return kind + len(data).to_bytes(_HEAD_BYTES - 1, "big") + data


class BrowserSession:
    """The Console process of one page. Pages of the same `owner` can take it over."""

    def __init__(self, launch: Launch, owner: object, page: PageStream, user: str = "") -> None:
        """Create a session of an owner, and of a user of a service; `show` starts its process."""
        self.id = secrets.token_urlsafe(16)
        self.owner, self.user = owner, user
        self.last_used = now()
        self.receiving = 0
        """The number of requests with input that are in progress."""
        self.downloads: set[str] = set()
        """Names of the files in `folder` that the page may download."""
        self.page: PageStream | None = page
        self.unwatch: Callable[[], None] = lambda: None
        """Ends watching the access of the owner."""
        self._launch = launch
        self._pending = 0
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._resources = contextlib.ExitStack()
        self.folder = self._resources.enter_context(temporary_folder(FOLDER)) if launch.hosted else None
        """The folder of a hosted Console."""

    @property
    def pending(self) -> int:
        """The number of edits that would be lost by closing the session."""
        return self._pending if self._reading is not None and not self._reading.done() else 0

    async def show(self, width: int, height: int) -> None:
        """Start the process, or show the running one on the page that was attached."""
        self.last_used = now()
        if self._process is None:
            await self._start(width, height)
        elif self.page is not None:
            await self.page.message("pending", self._pending)
            await self.control(type="show", width=width, height=height)

    async def detach(self, message: str = "") -> None:
        """Detach the page: it was closed, or shows a message instead of the Console."""
        page, self.page = self.page, None
        if page is not None:
            await page.close(message)

    async def _start(self, width: int, height: int) -> None:
        environ = {
            **self._launch.environ,
            "TEXTUAL_DRIVER": "screens.terminal_app:BrowserDriver",
            "TEXTUAL_FPS": "60",
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "COLUMNS": str(width),
            "ROWS": str(height),
            # The terminal of the server does not matter here: a browser displays all of Unicode.
            "LC_ALL": "C.UTF-8",
        }
        if self.folder is not None:
            environ |= {"HOME": str(self.folder), "TMPDIR": str(self.folder), "MALLOC_ARENA_MAX": "2"}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(("-I", "-B") if self._launch.hosted else ()),
            "-m",
            "svc_tui.console.web.child",
            json.dumps(self._launch.target),
            stdin=PIPE,
            stdout=PIPE,
            cwd=self.folder,
            env=environ,
            start_new_session=True,  # So that ctrl+c in the terminal reaches only the server.
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: Process) -> None:
        """Forward the output of the process until it ends."""
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await process.stdout.readuntil(b"__GANGLION__\n")
            while True:
                head = await process.stdout.readexactly(_HEAD_BYTES)
                data = await process.stdout.readexactly(int.from_bytes(head[1:], "big"))
                if head[:1] == b"M":
                    await self._on_message(json.loads(data))
                elif self.page is not None:  # Otherwise, the next page requests a full redraw.
                    await self.page.send(DATA, data)
        await self.detach("The Console has exited.")

    async def _on_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "pending", "edits": int(edits)}:
                self._pending = edits
                reply: tuple[Any, ...] = ("pending", edits)
            case {"type": "open_url", "url": str(url)}:
                reply = ("open_url", {"url": url, "new_tab": True})
            case {"type": "download", "name": str(name)}:
                self.downloads.add(name)
                reply = ("download", name)
            case {"type": "exit"}:
                self._pending = 0  # The user has confirmed the exit.
                return
            case _:
                return
        if self.page is not None:
            await self.page.message(*reply)

    async def control(self, **message: Any) -> None:
        await self._write(packet(b"M", json.dumps(message).encode()))

    async def receive(self, message: Any) -> None:
        match message:
            case ["stdin", str(text)]:
                self.last_used = now()
                await self._write(packet(b"D", text.encode("utf-8", "replace")))
            case ["resize", size]:
                width, height = terminal_size(size)
                await self.control(type="resize", width=width, height=height)
            case ["blur" | "focus" as change]:
                await self.control(type=change)

    async def _write(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):  # The process has exited.
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def close(self) -> None:
        """Stop the process, by SIGKILL after a timeout, and detach the page."""
        self.unwatch()
        await self.detach()
        if self._process is not None and self._process.stdin is not None:
            if not self._process.stdin.is_closing():
                self._process.stdin.write(packet(b"M", b'{"type": "quit"}'))
                self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), EXIT_TIMEOUT_SECONDS)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                await self._process.wait()
        if self._reading is not None:
            await self._reading
        self._resources.close()
