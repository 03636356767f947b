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
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.e2e.dev_server import DevServer, dev_server

pytestmark = pytest.mark.slow
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


def test_the_page_shows_numbers_that_move_and_asks_its_own_origin_only(pulse: DevServer) -> None:
    async def visit() -> None:
        async with chromium() as page:
            await page.call("Network.enable")
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.navigate", url=pulse.url + "/")
            await page.until("document.querySelector('#state')?.dataset.state === 'live'")
            seen = set()
            for _ in range(3):
                now = await page.until(
                    "(() => { const t = [...document.querySelectorAll('output')].map((o) => o.value).join();"
                    f" return /\\d/.test(t) && !{json.dumps(sorted(seen))}.includes(t) && t; }})()"
                )
                seen.add(now)
            assert len(seen) == 3
            assert await page.value(
                "document.querySelectorAll('polyline')[0].getAttribute('points').split(' ').length >= 3"
            )
            await page.until("document.querySelector('#answer').textContent.includes('request')")
            if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
                import base64

                shot = await page.call("Page.captureScreenshot")
                (Path(folder) / "pulse.png").write_bytes(base64.b64decode(shot["data"]))
            asked = [
                event["params"]["request"]["url"]
                for event in page.events
                if event["method"] == "Network.requestWillBeSent"
            ]
            origins = {
                "{0.scheme}://{0.netloc}".format(urlsplit(url))
                for url in asked
                if not url.startswith("data:")
            }
            assert origins == {pulse.url}
            assert any(url.endswith("/api/events") for url in asked)
            trouble = [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
            assert trouble == []

    asyncio.run(visit())


def test_a_page_opened_before_the_api_was_built_comes_alive_when_it_is(project: Path, home: Path) -> None:
    script = project / "api" / "src" / "index.js"
    text = script.read_text()
    script.write_text("export default {\n")

    async def visit(server: DevServer) -> None:
        async with chromium() as page:
            await page.call("Page.navigate", url=server.url + "/")
            await page.until("document.querySelector('#state')?.dataset.state === 'lost'")
            script.write_text(text)
            await page.until("document.querySelector('#state').dataset.state === 'live'")
            await page.until("document.querySelector('#answer').textContent.includes('request')")

    with dev_server(project, home) as server:
        asyncio.run(visit(server))
