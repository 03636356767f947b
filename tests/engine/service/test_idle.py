"""Projects without requests are unloaded, and work as before when something needs them."""

import asyncio
import os
from pathlib import Path

import pytest

from engine.artifact import Artifact
from engine.bucket.blobs import Blobs
from engine.bucket.protocols import Digest
from engine.deploy import package_store
from engine.gateway import on_demand
from engine.gateway.on_demand import OnDemand
from engine.timeline.record import RequestRecord
from tests.engine.service.pages import deploy_page, pages
from tests.engine.service.serving import STATIC, Served, served
from tests.engine.wasm import text_guest

GUEST = STATIC.replace("static", "rust").replace("output", "build = 'true'\noutput")
PROJECTS = 24


def version(running: Served, project: str = "shop") -> OnDemand:
    endpoint = running.service._site.routes.resource(project, "web")
    assert endpoint is not None and isinstance(endpoint.version, OnDemand)
    return endpoint.version


def test_unloaded_guest_is_changed_without_loading_and_loaded_by_a_request(tmp_path: Path) -> None:
    guest = text_guest.artifact(tmp_path)

    async def scenario(running: Served) -> None:
        await running.deploy(await running.order(GUEST, {"web": guest}, allow_new_capability=True))
        assert (await running.get("/h")).text == "hello\n"
        runner = running.service._site.versions.runner
        assert len(runner._loaded) == 1
        version(running).unload()
        assert len(runner._loaded) == 0
        await running.service.change("shop", running.service.quotas.change("shop", {"instances": 3}))
        await running.service.reload("shop")
        assert version(running).loaded is None
        assert running.service._site.status("shop", "web").state == "ready"
        running.records.clear()
        assert (await running.get("/h")).text == "hello\n"
        (record,) = [each for each in running.records if isinstance(each, RequestRecord)]
        assert [call.name for call in record.calls] == ["load the resource"]
        assert version(running).loaded is not None

    served(tmp_path, scenario)


def test_deploy_is_loaded_before_it_is_live(tmp_path: Path) -> None:
    page = {text: pages(tmp_path, text) for text in ("one", "two")}

    async def scenario(running: Served) -> None:
        for text in ("one", "two"):
            await deploy_page(running, page[text])
            assert version(running).loaded is not None
            assert (await running.get()).text == text

    served(tmp_path, scenario)


def test_first_requests_of_many_projects_at_once_after_a_start_are_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"p{number:02}" for number in range(PROJECTS)]
    page = {name: pages(tmp_path, name) for name in names}

    async def first(running: Served) -> None:
        for name in names:
            await deploy_page(running, page[name], name)

    async def second(running: Served) -> None:
        assert all(version(running, name).loaded is None for name in names)
        for _ in range(2):
            answers = await asyncio.gather(*(running.get(project=name) for name in names * 3))
            assert [answer.text for answer in answers] == names * 3
            assert sum(version(running, name).loaded is not None for name in names) == 4

    served(tmp_path, first)
    monkeypatch.setattr(on_demand, "MAX_LOADED", 4)
    monkeypatch.setattr(on_demand, "share_of_files", lambda files: 4)
    served(tmp_path, second)


def test_project_that_changes_while_it_is_loaded_answers_with_a_whole_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def first(running: Served) -> None:
        await deploy_page(running, one)

    async def second(running: Served) -> None:
        waiting = asyncio.create_task(running.get())
        before = version(running)
        await loading.wait()
        await deploy_page(running, two)
        assert version(running) is not before and (await running.get()).text == "two"
        released.set()
        assert (await waiting).text == "one"
        assert (await running.get()).text == "two"

    served(tmp_path, first)
    loading, released = asyncio.Event(), asyncio.Event()
    unpack = package_store.unpack

    async def slow_first(blobs: Blobs, digest: Digest, folder: Path, *, verify: bool = True) -> Artifact:
        if not loading.is_set():
            loading.set()
            await released.wait()
        return await unpack(blobs, digest, folder, verify=verify)

    monkeypatch.setattr(package_store, "unpack", slow_first)
    served(tmp_path, second)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_open_files_do_not_grow_with_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "MAX_LOADED", 2)
    guest = text_guest.artifact(tmp_path)

    async def scenario(running: Served) -> None:
        counts = []
        for number in range(6):
            manifest = GUEST.replace("shop", f"p{number}")
            order = await running.order(
                manifest, {"web": guest}, name=f"p{number}", allow_new_capability=True
            )
            await running.deploy(order)
            assert (await running.get("/h", project=f"p{number}")).text == "hello\n"
            counts.append(open_files())
        async with asyncio.timeout(60):
            while open_files() > counts[2]:  # noqa: ASYNC110 - other threads open files for a moment
                await asyncio.sleep(0.02)

    served(tmp_path, scenario)
