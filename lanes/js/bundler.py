"""Client of the node process that bundles (`node/bundler.mjs`): one process per lane, started on demand."""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

from engine.lane import BuildFailed
from lanes.js.toolchain import Toolchain

LINE_LIMIT = 256 << 20
"""Maximum bytes of one response: a bundle and its source map."""

COMPLAINT_LIMIT = 64 << 10
"""Maximum bytes of the process's stderr that are retained."""


class Bundler:
    """The bundling process. It is restarted after a crash and handles several requests at once."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._complaint = b""
        self._next = 0
        self._starting = asyncio.Lock()

    async def bundle(self, toolchain: Toolchain, **request: Any) -> dict[str, Any]:
        """Return the response to one request. Raises `BuildFailed` if the process fails."""
        try:
            try:
                answer = await self._request(toolchain, request)
            except ConnectionError:
                if self._reader is not None:
                    await asyncio.wait([self._reader])
                answer = await self._request(toolchain, request)
        except ConnectionError as error:
            raise BuildFailed(
                "the bundler ended while it worked",
                f"If it happens again, remove {toolchain.folder.parent}: the next build installs it again.",
                output=self._complaint.decode(errors="replace"),
            ) from error
        if "fault" in answer:
            raise BuildFailed("the bundler failed", "Save the file again.", output=answer["fault"])
        return answer

    async def _request(self, toolchain: Toolchain, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request. Raises `ConnectionError` if the process ends before its response."""
        process = await self._running(toolchain)
        self._next += 1
        number = self._next
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            await process.stdin.drain()
            answer: dict[str, Any] = await future
            return answer
        finally:
            self._waiting.pop(number, None)

    async def _running(self, toolchain: Toolchain) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._reader is None or self._reader.done():
                self._process = await asyncio.create_subprocess_exec(
                    toolchain.node,
                    toolchain.script("bundler.mjs"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                    limit=LINE_LIMIT,
                )
                self._reader = asyncio.get_running_loop().create_task(self._read(self._process))
            assert self._process is not None
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Dispatch responses until the process ends, then fail the pending requests."""
        assert process.stdout is not None and process.stderr is not None
        complaints = asyncio.get_running_loop().create_task(_tail(process.stderr))
        try:
            while line := await process.stdout.readline():
                answer = json.loads(line)
                future = self._waiting.get(answer.pop("id"))
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError:
            # A too long or invalid response: the process cannot be used any longer.
            _kill(process)
        await process.wait()
        self._complaint = await complaints
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the bundler ended"))

    async def aclose(self) -> None:
        """Kill the process and its children."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        await process.wait()
        if self._reader is not None:
            await self._reader
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


async def _tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while data := await stream.read(COMPLAINT_LIMIT):
        tail = (tail + data)[-COMPLAINT_LIMIT:]
    return tail


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
