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


class Bundler:
    """The bundling process. Restarted when it died; several requests may be under way."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next = 0
        self._starting = asyncio.Lock()

    async def bundle(self, toolchain: Toolchain, **request: Any) -> dict[str, Any]:
        """Return the answer to one request. Raises `BuildFailed` when the process can not give one."""
        process = await self._running(toolchain)
        self._next += 1
        number = self._next
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            await process.stdin.drain()
            answer: dict[str, Any] = await future
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise BuildFailed("the bundler ended while it worked", "Save the file again.") from error
        finally:
            self._waiting.pop(number, None)
        if "fault" in answer:
            raise BuildFailed("the bundler failed", "Save the file again.", output=answer["fault"])
        return answer

    async def _running(self, toolchain: Toolchain) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    toolchain.node,
                    toolchain.script("bundler.mjs"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    limit=LINE_LIMIT,
                )
                self._reader = asyncio.get_running_loop().create_task(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = json.loads(line)
            future = self._waiting.get(answer.pop("id"))
            if future is not None and not future.done():
                future.set_result(answer)
        await process.wait()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("the bundler ended"))

    async def aclose(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._reader is not None:
            await self._reader
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()
