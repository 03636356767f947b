"""A page in a real browser, driven over the DevTools protocol."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-port=0",
)


class Page:
    """A page driven over the DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(await asyncio.wait_for(self._socket.recv(), 20))
            if message.get("id") == self._number:
                return dict(message["result"])
            self.events.append(message)

    async def value(self, script: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=script, returnByValue=True))["result"].get(
            "value"
        )

    async def until(self, script: str) -> Any:
        """Evaluate until the value is truthy."""
        for _ in range(200):
            if found := await self.value(script):
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{script} never held")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found, "this test needs Chromium on PATH (Debian: apt install chromium)"
    with tempfile.TemporaryDirectory(prefix="svc-chromium-", ignore_cleanup_errors=True) as profile:
        command = [found, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            active = Path(profile) / "DevToolsActivePort"
            for _ in range(400):
                if active.exists() and active.read_text().count("\n") >= 1:
                    break
                await asyncio.sleep(0.05)
            port = active.read_text().split("\n")[0]
            async with httpx.AsyncClient() as client:
                targets = (await client.get(f"http://127.0.0.1:{port}/json/list")).json()
            address = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
            async with connect(address, max_size=None) as socket:
                yield Page(socket)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
