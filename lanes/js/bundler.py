"""Talks to the node process that bundles: one process a lane, started when first needed.

Owns the process and its protocol (`node/bundler.mjs`); what the answers mean is `lane.py`'s.
"""

import asyncio
import contextlib
import json
import os
import signal
from typing import Any

from engine.lane import BuildFailed
from lanes.js.toolchain import Toolchain

LINE_LIMIT = 256 << 20
"""Most bytes of one answer: a bundle and its source map."""

COMPLAINT_LIMIT = 64 << 10
"""Most bytes kept of what the process says on stderr."""


class Bundler:
    """The bundling process. Restarted when it died; several requests may be under way."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._complaint = b""
        self._next = 0
        self._starting = asyncio.Lock()

    async def bundle(self, toolchain: Toolchain, **request: Any) -> dict[str, Any]:
        """Return the answer to one request. Raises `BuildFailed` when the process can not give one."""
        try:
            try:
                answer = await self._ask(toolchain, request)
            except ConnectionError:
                if self._reader is not None:
                    await asyncio.wait([self._reader])
                answer = await self._ask(toolchain, request)
        except ConnectionError as error:
            raise BuildFailed(
                "the bundler ended while it worked",
                f"If it happens again, remove {toolchain.folder.parent}: it is installed anew then.",
                output=self._complaint.decode(errors="replace"),
            ) from error
        if "fault" in answer:
            raise BuildFailed("the bundler failed", "Save the file again.", output=answer["fault"])
        return answer

    async def _ask(self, toolchain: Toolchain, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request; raise `ConnectionError` when the process ends before its answer."""
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
        """Hand out answers until the process ends, then fail what still waits for one."""
        assert process.stdout is not None and process.stderr is not None
        complaints = asyncio.get_running_loop().create_task(_tail(process.stderr))
        try:
            while line := await process.stdout.readline():
                answer = json.loads(line)
                future = self._waiting.get(answer.pop("id"))
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError:
            # An answer that is too long, or none of ours: this process is of no use any more.
            _kill(process)
        await process.wait()
        self._complaint = await complaints
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the bundler ended"))

    async def aclose(self) -> None:
        """End the process and all that it started."""
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
    kept = b""
    while data := await stream.read(COMPLAINT_LIMIT):
        kept = (kept + data)[-COMPLAINT_LIMIT:]
    return kept


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
