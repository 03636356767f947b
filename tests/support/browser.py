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

SECONDS = 60.0
RECEIVED = """
    window.received = "";
    Object.defineProperty(window, "WebSocket", {
        get() { return this.socketClass; },
        set(socket) {
            this.socketClass = class extends socket {
                constructor(...given) {
                    super(...given);
                    const decoder = new TextDecoder();
                    this.addEventListener("message", ({ data }) => {
                        if (typeof data === "string") return;
                        window.received += decoder.decode(data, { stream: true });
                    });
                }
            };
        },
    });
"""
"""Collects the output of a Console in `received`."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Refused(Exception):
    """An action that the browser refused."""


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
            message = json.loads(await asyncio.wait_for(self._socket.recv(), SECONDS))
            if message.get("id") == self._number:
                if "error" in message:
                    raise Refused(message["error"]["message"])
                return dict(message["result"])
            self.events.append(message)

    async def value(self, script: str) -> Any:
        """Return what a script comes to; `None` while one page gives way to the next."""
        with contextlib.suppress(Refused):
            result = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
            return result["result"].get("value")
        return None

    async def until(self, script: str) -> Any:
        """Evaluate until the value is truthy."""
        end = asyncio.get_running_loop().time() + SECONDS
        while not (found := await self.value(script)):
            assert asyncio.get_running_loop().time() < end, f"{script} never held"
            await asyncio.sleep(0.05)
        return found

    async def press(self, key: str) -> None:
        """Press the key of a character, as its user does."""
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def press_until(self, key: str, script: str) -> None:
        """Press a key until a condition holds. Keys before a page's first paint are dropped."""
        end = asyncio.get_running_loop().time() + SECONDS
        while True:
            await self.press(key)
            for _ in range(20):
                if await self.value(script):
                    return
                await asyncio.sleep(0.05)
            assert asyncio.get_running_loop().time() < end, f"{script} never held"

    async def until_event(self, method: str) -> None:
        """Wait for an event, which may have been already."""
        while all(event["method"] != method for event in self.events):
            self.events.append(json.loads(await asyncio.wait_for(self._socket.recv(), SECONDS)))

    def dialogs(self) -> list[str]:
        """Return the kinds of the questions that the browser asked."""
        return [
            event["params"]["type"]
            for event in self.events
            if event["method"] == "Page.javascriptDialogOpening"
        ]


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    result = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert result, "this test needs Chromium on PATH (Debian: apt install chromium)"
    with tempfile.TemporaryDirectory(prefix="svc-chromium-", ignore_cleanup_errors=True) as profile:
        command = [result, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
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
            async with httpx.AsyncClient(timeout=60) as client:
                targets = (await client.get(f"http://127.0.0.1:{port}/json/list")).json()
            address = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
            async with connect(address, max_size=None) as socket:
                yield Page(socket)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
