"""A service starts whatever the state of its projects."""

import asyncio
import shutil
from pathlib import Path

import pytest

from engine.artifact import Artifact
from engine.bucket.blobs import Blobs
from engine.bucket.protocols import Digest, as_digest
from engine.deploy import package_store
from engine.deploy.package_store import pack
from engine.service import deployer
from tests.engine.service.pages import deploy_page, pages
from tests.engine.service.serving import STATIC, Served, served
from tests.engine.wasm import text_guest


def test_corrupt_project_does_not_affect_others(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def first(running: Served) -> None:
        await deploy_page(running, one)
        await deploy_page(running, two, "blog")
        for digest in pack(one).package.digests:
            await running.bucket.blobs.delete(digest, 1 << 62)

    async def second(running: Served) -> None:
        assert (await running.get(project="blog")).text == "two"
        assert (await running.get()).status_code == 503
        assert [error.message[:18] for error in running.warned] == ["shop is not served"]

    served(tmp_path, first)
    shutil.rmtree(tmp_path / "unpacked")
    served(tmp_path, second)


class SlowUnpacking:
    """Unpacks packages of one project only once it is `released`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, digests: set[str]) -> None:
        self.released = asyncio.Event()
        unpack = package_store.unpack

        async def slow(blobs: Blobs, digest: Digest, folder: Path, *, verify: bool = True) -> Artifact:
            if digest in digests:
                await self.released.wait()
            return await unpack(blobs, digest, folder, verify=verify)

        monkeypatch.setattr(package_store, "unpack", slow)


@pytest.mark.parametrize("fails", [False, True])
def test_project_that_loads_for_long_delays_no_other_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")
    slow: set[str] = set()

    async def first(running: Served) -> None:
        await deploy_page(running, one)
        deployment = await deploy_page(running, two, "other")
        slow.update(part.package for part in deployment.resources.values())
        if fails:
            for digest in slow:
                assert await running.bucket.blobs.delete(as_digest(digest), 2**62)

    async def second(running: Served) -> None:
        assert (await running.get()).text == "one" and running.warned == []
        waiting = asyncio.create_task(running.get(project="other"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        unpacking.released.set()
        answer = await waiting
        if fails:
            assert (answer.status_code, answer.json()["code"]) == (503, "not-ready")
            assert [str(error).partition(":")[0] for error in running.warned] == ["other is not served"]
        else:
            assert answer.text == "two"

    served(tmp_path, first)
    if fails:
        shutil.rmtree(tmp_path / "unpacked")
    monkeypatch.setattr(deployer, "START_SECONDS", 0.2)
    unpacking = SlowUnpacking(monkeypatch, slow)
    served(tmp_path, second)


def test_corrupt_live_record_affects_no_other_project(tmp_path: Path) -> None:
    page = {name: pages(tmp_path, name) for name in ("shop", "blog")}

    async def first(running: Served) -> None:
        for name in ("shop", "blog"):
            await deploy_page(running, page[name], name)
        kv = running.bucket.kv
        cell = await kv.get("live/shop")
        assert cell is not None
        await kv.cas(cell.key, cell.value[:-9], cell.revision)

    async def second(running: Served) -> None:
        assert (await running.get(project="blog")).text == "blog"
        assert (await running.get()).status_code == 404
        (warning,) = running.warned
        assert "live in shop is corrupt" in warning.message and "backup" in warning.hint

    served(tmp_path, first)
    served(tmp_path, second)


def test_damaged_or_unreadable_machine_code_affects_no_other_project(tmp_path: Path) -> None:
    manifest = STATIC.replace("static", "rust").replace("output", "build = 'true'\noutput")
    guest, page = text_guest.artifact(tmp_path), pages(tmp_path, "one")

    async def first(running: Served) -> None:
        await running.deploy(await running.order(manifest, {"web": guest}, allow_new_capability=True))
        await deploy_page(running, page, "blog")

    async def second(running: Served) -> None:
        assert (await running.get("/h")).text == "hello\n"
        assert (await running.get(project="blog")).text == "one" and running.warned == []

    async def third(running: Served) -> None:
        assert (await running.get("/h")).status_code == 503
        assert (await running.get(project="blog")).text == "one"

    served(tmp_path, first)
    (code,) = (tmp_path / "cache" / "compiled").glob("*.cwasm")
    damaged = code.read_bytes()[:1000]
    code.unlink()  # A mapping of the file that is not yet collected stays readable.
    code.write_bytes(damaged)
    served(tmp_path, second)
    code.unlink()
    code.mkdir()
    served(tmp_path, third)
