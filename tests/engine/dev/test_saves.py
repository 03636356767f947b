"""Requests between a save and its build."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from engine.gateway import app
from engine.workers import pool
from tests.engine.control.developing import developed

MANIFEST = """[project]
name = "a"
[resource.web]
lane = "static"
public = true
output = "dist"
build = "touch started; while test ! -e go; do sleep 0.01; done; mkdir -p dist; cp page.html dist/index.html"
"""
PATIENT_WORKER = """
from engine.gateway import app
from svc_tui.worker import main
app.SAVE_SECONDS = 60
main()
"""


def saved(root: Path, body: Callable[[httpx.AsyncClient], Awaitable[None]], workers: int = 1) -> None:
    """Save `page.html` and call `body` while its build waits for the file `go`."""
    (root / "svc.toml").write_text(MANIFEST)
    (root / ".gitignore").write_text("go\nstarted\n")
    (root / "page.html").write_text("one")
    (root / "go").touch()

    async def main() -> None:
        async with (
            developed(root, asyncio.Event(), root.parent / "cache", workers) as running,
            httpx.AsyncClient(base_url=f"http://localhost:{running.port}", timeout=60) as client,
        ):
            assert (await client.get("/")).text == "one"
            for name in ("go", "started"):
                (root / name).unlink()
            (root / "page.html").write_text("two")
            while not (root / "started").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await body(client)

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "süß und weit"
    (folder / ".svc").mkdir(parents=True)  # Its creation would be a save.
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_request_after_a_save_waits_for_its_build(
    root: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A build may take longer than 3 s on a busy machine.
    monkeypatch.setattr(app, "SAVE_SECONDS", 60)
    monkeypatch.setattr(pool, "python_module", lambda name: [sys.executable, "-c", PATIENT_WORKER])

    async def body(client: httpx.AsyncClient) -> None:
        requests = [asyncio.create_task(client.get("/")) for _ in range(4)]
        _, waiting = await asyncio.wait(requests, timeout=0.1)
        assert len(waiting) == 4
        (root / "go").touch()
        assert {(await request).text for request in requests} == {"two"}

    saved(root, body, workers)


def test_failed_build_of_a_save_answers_with_the_version_before(root: Path) -> None:
    async def body(client: httpx.AsyncClient) -> None:
        request = asyncio.create_task(client.get("/"))
        await asyncio.wait([request], timeout=0.1)
        assert not request.done()
        (root / "page.html").unlink()
        (root / "go").touch()
        assert (await request).text == "one"

    saved(root, body)


def test_request_does_not_wait_for_a_build_that_hangs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SAVE_SECONDS", 0.2)

    async def body(client: httpx.AsyncClient) -> None:
        assert (await client.get("/")).text == "one"
        (root / "go").touch()
        while (await client.get("/")).text != "two":
            pass

    saved(root, body)
