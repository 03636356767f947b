"""A removal deletes all of a project, is completed after a restart, and reaches each node of a fleet once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engine.artifact import Artifact
from engine.bucket.folder import FolderBucket
from engine.deploy.serving import Publication
from engine.errors import SvcError
from engine.service.removals import Removals
from tests.engine.service.pages import pages
from tests.engine.service.serving import STATIC, Served, served


async def deploy(running: Served, page: Artifact) -> None:
    await running.deploy(await running.order(STATIC, {"web": page}))


async def nothing_is_left(running: Served) -> None:
    assert (await running.get()).status_code == 404
    keys = [each.key for each in await running.bucket.kv.list("")]
    left = [key for key in keys if "shop" in key and not key.startswith("names/")]
    assert left == ["removals/shop"] and not await running.service.removals.is_pending("shop")


def test_a_removed_project_has_no_records_and_can_be_deployed_again(tmp_path: Path) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def scenario(running: Served) -> None:
        service = running.service
        await deploy(running, one)
        await service.change("shop", service.secrets.set("shop", "KEY", "value"))
        await service.change("shop", service.quotas.change("shop", {"requests": 1000}))
        await service.domains.declare("shop", ["shop.example"])
        [domain] = (await service.domains.get("shop")).values()
        await service.domains.checked("shop", domain, reached=True, detail="")
        removed: list[tuple[str, str]] = []
        service.on_removed = lambda project, by: removed.append((project, by))
        await service.remove("shop", "ann")
        assert removed == [("shop", "ann")]
        [left] = [each.key for each in await running.bucket.kv.list("names/")]
        assert left == "names/shop.example" and await service.domains._claim("other", "shop.example")
        await nothing_is_left(running)
        with pytest.raises(SvcError, match="the service has no project shop") as caught:
            await service.remove("shop", "ann")
        assert caught.value.code == "not-found"
        await deploy(running, two)
        assert (await running.get()).text == "two" and await service.secrets.names("shop") == []
        assert len(await service.history.deployments("shop")) == 1

    served(tmp_path, scenario)


def test_publications_name_the_last_removal(tmp_path: Path) -> None:
    published: list[Publication] = []

    async def publish(publication: Publication) -> None:
        published.append(publication)

    page = pages(tmp_path, "one")

    async def scenario(running: Served) -> None:
        await deploy(running, page)
        await running.service.remove("shop", "ann")
        await deploy(running, page)
        removal = await running.service.removals.get("shop")
        assert removal is not None
        assert [each.removal for each in published if not each.removed] == ["", removal.id]

    served(tmp_path, scenario, publish)


async def _stop_at_the_record(running: Served) -> None:
    await running.service.removals.begin("shop", "ann")


async def _stop_before_the_data(running: Served) -> None:
    await running.service.removals.begin("shop", "ann")
    await running.service.removals.stop_serving("shop")


async def _stop_before_the_records(running: Served) -> None:
    async def fail(project: str) -> None:
        raise SvcError("the disk is full")

    running.service.delete_elsewhere = fail
    with pytest.raises(SvcError, match="the disk is full"):
        await running.service.remove("shop", "ann")


@pytest.mark.parametrize("stop", [_stop_at_the_record, _stop_before_the_data, _stop_before_the_records])
def test_a_removal_that_stopped_is_completed_at_the_next_start_or_deploy(
    tmp_path: Path, stop: Callable[[Served], Awaitable[None]]
) -> None:
    one, two = pages(tmp_path, "one"), pages(tmp_path, "two")

    async def stopped(running: Served) -> None:
        await deploy(running, one)
        await stop(running)

    async def deployed(running: Served) -> None:
        await nothing_is_left(running)
        await deploy(running, one)
        await stop(running)
        running.service.delete_elsewhere = None
        order = await running.order(STATIC, {"web": two}, revision=None)
        await running.deploy(order)
        assert (await running.get()).text == "two"
        assert len(await running.service.history.deployments("shop")) == 1

    served(tmp_path, stopped)
    served(tmp_path, deployed)


def test_a_removal_during_a_deploy_is_refused(tmp_path: Path) -> None:
    one = pages(tmp_path, "one")

    async def scenario(running: Served) -> None:
        order = await running.order(STATIC, {"web": one})
        steps = running.service.deploy(order)
        await anext(steps)
        with pytest.raises(SvcError, match="a deploy or another change of shop is in progress") as caught:
            await running.service.remove("shop", "ann")
        assert caught.value.code == "conflict"
        assert [step async for step in steps] and (await running.get()).text == "one"

    served(tmp_path, scenario)


def test_a_node_applies_the_removals_that_it_has_missed_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = FolderBucket(tmp_path / "bucket")
        try:
            cells = bucket.kv
            first = Removals(cells)
            await first.begin("old", "ann")
            await first.complete("old")
            await cells.cas("live/old", b"new", None)
            node = Removals(cells, tmp_path / "applied")
            assert await node.unapplied() == []
            await cells.cas("live/shop", b"one", None)
            await first.begin("shop", "ann")
            assert not await node.is_unapplied("shop")
            await first.stop_serving("shop")
            assert await node.unapplied() == ["shop"]
            await node.applied("shop")
            assert await node.unapplied() == []
            await first.complete("shop")
            await cells.cas("live/shop", b"two", None)
            assert await node.unapplied() == ["shop"]
            await node.applied("shop")
            await first.stop_serving("shop")
            assert await node.unapplied() == [] and await cells.get("live/shop") is not None
        finally:
            await bucket.aclose()

    asyncio.run(scenario())
