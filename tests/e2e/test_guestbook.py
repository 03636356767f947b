"""`sample-apps/guestbook`: one table that guests in three languages share.

Tests with the fixture `guestbook` run on one machine and on a fleet.
"""

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import httpx
import pytest

from svc_tui.main import run
from tests.support.browser import Page, chromium
from tests.support.dev_server import dev_server
from tests.support.hosting import HOSTS, Host, host

pytestmark = pytest.mark.slow
LANES = ("js", "go", "rust")
ENTRY = "document.querySelector('#entries li:first-child')"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, rust_toolchain: None) -> Path:
    """A project that `svc new` created from the template, which is the sample."""
    project = tmp_path_factory.mktemp("süß") / "our-book"
    assert run(["new", str(project), "--template", "guestbook"]) == 0
    return project


@pytest.fixture(scope="module", params=HOSTS)
def guestbook(
    request: pytest.FixtureRequest, project: Path, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """A host for all tests."""
    with host(request.param, project, home, tmp_path_factory.mktemp("nodes")) as running:
        yield running


def post(server: Host, path: str, content: str = "") -> httpx.Response:
    return server.request("POST", path, content=content.encode())


def write(server: Host, lane: str, author: str, message: str) -> dict[str, Any]:
    answer = post(server, f"/{lane}/entries", json.dumps({"author": author, "message": message}))
    assert answer.status_code == 201, answer.text
    entry: dict[str, Any] = answer.json()
    return entry


def entries(server: Host, lane: str) -> list[dict[str, Any]]:
    answer = server.get(f"/{lane}/entries")
    assert answer.status_code == 200, answer.text
    result: list[dict[str, Any]] = answer.json()
    return result


def test_guestbook_template_serves_its_own_entries(guestbook: Host) -> None:
    """Runs first: the guestbook is empty."""
    assert entries(guestbook, "go") == []
    written = write(guestbook, "js", "ada", "first")
    assert [entry["id"] for entry in entries(guestbook, "rust")] == [written["id"]]


@pytest.mark.parametrize(("writer", "reader"), [*permutations(LANES, 2)])
def test_entry_of_one_language_is_read_by_another(guestbook: Host, writer: str, reader: str) -> None:
    hostile = f"'; drop table entries; -- ü😀 {writer} to {reader}"
    written = write(guestbook, writer, "Jürgen", hostile)
    result = entries(guestbook, reader)[0]
    assert {name: result[name] for name in ("id", "lane", "author", "message", "hearts")} == {
        "id": written["id"],
        "lane": writer,
        "author": "Jürgen",
        "message": hostile,
        "hearts": 0,
    }
    assert result["written_at"].endswith("Z") and written["written_at"].startswith(result["written_at"][:19])


def test_hearts_of_all_languages_add_up(guestbook: Host) -> None:
    entry = write(guestbook, "go", "ada", "hearts")
    counts = [post(guestbook, f"/{lane}/entries/{entry['id']}/heart").json()["hearts"] for lane in LANES]
    assert counts == [1, 2, 3]
    assert {entries(guestbook, lane)[0]["hearts"] for lane in LANES} == {3}


@pytest.mark.parametrize("lane", LANES)
def test_entry_that_the_table_rejects_is_a_client_error(guestbook: Host, lane: str) -> None:
    before = entries(guestbook, lane)
    long = json.dumps({"author": "ada", "message": "x" * 281})
    half = '{"author":"\\ud800","message":""}'
    for content in ('{"author":"","message":"x"}', '{"author":"ada"}', "null", half, long, "no JSON", ""):
        answer = post(guestbook, f"/{lane}/entries", content)
        assert answer.status_code == 400, (content, answer.text)
        json_at_all = content not in ("no JSON", "")
        assert answer.json()["title"].startswith("A name has" if json_at_all else "An entry is JSON")
    assert entries(guestbook, lane) == before
    assert post(guestbook, f"/{lane}/entries/999999/heart").status_code == 404
    assert guestbook.get(f"/{lane}/nothing").status_code == 404


@pytest.mark.parametrize("lane", LANES)
def test_entry_writes_a_log_record(guestbook: Host, lane: str) -> None:
    before = len(guestbook.lines)
    entry = write(guestbook, lane, "grace", "for the record")
    guestbook.wait_for(rf"entry written(?=.*grace)(?=.*\b{entry['id']}\b)", after=before)


def test_page_shows_the_language_of_each_entry(guestbook: Host) -> None:
    async def sign(page: Page, lane: str, message: str) -> None:
        filled = (
            "(() => { const form = document.querySelector('#sign'); form.elements.author.value = 'Ada';"
            f" form.elements.message.value = {json.dumps(message)}; form.elements.lane.value = '{lane}';"
            " form.requestSubmit(); })()"
        )
        await page.value(filled)
        await page.until(f"{ENTRY}?.querySelector('blockquote').textContent === {json.dumps(message)}")

    async def visit() -> None:
        async with chromium() as page:
            await page.call("Runtime.enable")
            await page.call("Page.enable")
            await page.call(
                "Emulation.setDeviceMetricsOverride",
                width=1280,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            await page.call("Page.navigate", url=guestbook.url + "/")
            await page.until("document.querySelector('#read')?.textContent.startsWith('read by')")
            for lane, name in zip(LANES, ("JavaScript", "Go", "Rust"), strict=True):
                await sign(page, lane, f"<b>not bold</b> by {name}")
                assert await page.value(f"{ENTRY}.querySelector('.lane').textContent") == f"written by {name}"
                reader = await page.value("document.querySelector('#read').dataset.lane")
                assert reader != lane
            assert await page.value(f"{ENTRY}.querySelector('blockquote b')") is None
            await page.value(f"{ENTRY}.querySelector('.heart').click()")
            await page.until(f"{ENTRY}.querySelector('.heart b').textContent === '1'")
            if folder := os.environ.get("SVC_TEST_SCREENSHOTS"):
                shot = await page.call("Page.captureScreenshot")
                (Path(folder) / "guestbook.png").write_bytes(base64.b64decode(shot["data"]))
            await page.value(
                "(() => { const form = document.querySelector('#sign'); const area = form.elements.message;"
                " area.maxLength = 999; area.value = 'x'.repeat(281); form.requestSubmit(); })()"
            )
            await page.until(
                "document.querySelector('#result').textContent.startsWith('Not written: A name')"
            )
            assert [event for event in page.events if event["method"] == "Runtime.exceptionThrown"] == []

    asyncio.run(visit())


def test_entries_remain_after_a_restart(project: Path, home: Path) -> None:
    with dev_server(project, home) as server:
        written = write(server, "js", "ada", "still here")
        assert server.stop() == 0
    with dev_server(project, home) as server:
        assert entries(server, "js")[0]["id"] == written["id"]
