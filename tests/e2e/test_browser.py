import asyncio
import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.browser import chromium
from tests.support.dev_server import DevServer, dev_server

pytestmark = pytest.mark.slow


def test_page_updates_and_requests_its_own_origin_only(pulse: DevServer) -> None:
    async def visit() -> None:
        async with chromium() as page:
            await page.call("Network.enable")
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call("Page.navigate", url=pulse.url + "/")
            await page.until("document.querySelector('#state')?.dataset.state === 'live'")
            observed = set()
            for _ in range(3):
                now = await page.until(
                    "(() => { const t = [...document.querySelectorAll('output')].map((o) => o.value).join();"
                    f" return /\\d/.test(t) && !{json.dumps(sorted(observed))}.includes(t) && t; }})()"
                )
                observed.add(now)
            assert len(observed) == 3
            assert await page.value(
                "document.querySelectorAll('polyline')[0].getAttribute('points').split(' ').length >= 3"
            )
            await page.until("document.querySelector('#answer').textContent.includes('request')")
            if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
                import base64

                shot = await page.call("Page.captureScreenshot")
                (Path(folder) / "pulse.png").write_bytes(base64.b64decode(shot["data"]))
            requests = [
                event["params"]["request"]["url"]
                for event in page.events
                if event["method"] == "Network.requestWillBeSent"
            ]
            origins = {
                "{0.scheme}://{0.netloc}".format(urlsplit(url))
                for url in requests
                if not url.startswith("data:")
            }
            assert origins == {pulse.url}
            assert any(url.endswith("/api/events") for url in requests)
            trouble = [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
            assert trouble == []

    asyncio.run(visit())


def test_page_opened_before_the_first_build_starts_to_update(project: Path, home: Path) -> None:
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
