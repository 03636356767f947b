"""Deployment records, activation and garbage collection."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.bucket.folder import FolderBucket
from engine.bucket.protocols import BlobMissing, StaleRevision
from engine.deploy.deployment import Activation, DeploymentError, DeploymentHistory, Live, RecordError, decode
from engine.deploy.gc import GRACE_NS, GarbageError, GcReport, collect_garbage
from engine.deploy.package_store import touch
from tests.engine.deploy.packing import RESOURCE, component_artifact, deployment, opened, stored
from tests.support.blobs import exists

FOREVER = 1 << 62


def test_record_round_trips_without_paths_of_builder(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        deployed = await deployment(bucket, component_artifact(tmp_path), "01a")
        record = deployed.encode()
        assert decode(record) == deployed
        assert b"somewhere" not in record
        served = decode(record).served(tmp_path / "unpacked")
        package = deployed.resources["web"].package
        assert served.name == "shop"
        assert served.resources == {"web": replace(RESOURCE, workdir=tmp_path / "unpacked" / package)}

    opened(tmp_path / "bucket", scenario)


def test_invalid_or_newer_record_raises(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        record = json.loads((await deployment(bucket, component_artifact(tmp_path), "01a")).encode())
        web = record["resources"]["web"]
        mistakes: list[Any] = [
            [],
            {},
            record | {"version": 0},
            record | {"created_ns": "now"},
            record | {"resources": []},
            record | {"resources": {"api": web}},
            record | {"resources": {"web": web | {"package": "../" * 20}}},
            record | {"resources": {"web": {key: value for key, value in web.items() if key != "env"}}},
        ]
        for wrong in mistakes:
            with pytest.raises(RecordError, match="corrupt"):
                decode(json.dumps(wrong).encode())
        with pytest.raises(RecordError, match="corrupt"):
            decode(b"\xff")
        with pytest.raises(RecordError, match="newer svc"):
            decode(json.dumps({"version": 2}).encode())

    opened(tmp_path / "bucket", scenario)


def test_deployments_are_listed_newest_first_per_project(tmp_path: Path) -> None:
    async def write(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        for project, id_ in (("shop", "02"), ("shop", "01"), ("shop-2", "03"), ("sho", "04")):
            await history.add(await deployment(bucket, component_artifact(tmp_path), id_, project))
        with pytest.raises(DeploymentError, match="already"):
            await history.add(await deployment(bucket, component_artifact(tmp_path), "01"))

    async def look(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        assert [each.id for each in await history.deployments("shop")] == ["02", "01"]
        assert await history.deployments("other") == []
        assert {each.id for each in await history.all()} == {"01", "02", "03", "04"}
        assert (await history.get("shop", "01")).message == "a message\n"
        for project, id_ in (("shop", "03"), ("other", "01"), ("shop", "")):
            with pytest.raises(DeploymentError, match="has no deployment"):
                await history.get(project, id_)

    opened(tmp_path / "bucket", write)
    opened(tmp_path / "bucket", look)


def test_activate_requires_current_revision(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        for id_ in ("01", "02"):
            await history.add(await deployment(bucket, component_artifact(tmp_path, id_), id_))
        assert await history.live("shop") is None
        first = await history.activate("shop", "01", at_ns=1, by="a", revision=None)
        assert isinstance(first, Live)
        assert first.deployment == "01"
        late = await history.activate("shop", "02", at_ns=2, by="b", revision=None)
        assert late == StaleRevision(first.revision)
        second = await history.activate("shop", "02", at_ns=2, by="b", revision=first.revision)
        assert isinstance(second, Live)
        back = await history.activate("shop", "01", at_ns=3, by="c", revision=second.revision)
        assert isinstance(back, Live)
        assert back == await history.live("shop")
        assert back.activations == (
            Activation("01", 1, "a"),
            Activation("02", 2, "b"),
            Activation("01", 3, "c"),
        )
        answers = await asyncio.gather(
            *(history.activate("shop", "02", at_ns=4, by="d", revision=back.revision) for _ in range(10))
        )
        assert sum(isinstance(answer, Live) for answer in answers) == 1

    opened(tmp_path / "bucket", scenario)


def test_activate_of_incomplete_deployment_raises(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        with pytest.raises(DeploymentError):
            await history.activate("shop", "01", at_ns=1, by="a", revision=None)
        record = await deployment(bucket, component_artifact(tmp_path), "01")
        await history.add(record)
        assert await bucket.blobs.delete(record.resources["web"].artifact, FOREVER)
        with pytest.raises(BlobMissing):
            await history.activate("shop", "01", at_ns=1, by="a", revision=None)
        assert await history.live("shop") is None

    opened(tmp_path / "bucket", scenario)


def test_forget_old_retains_last_activated_deployments_after_the_clock_was_set_back(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        revision = None
        for id_ in ("07", "08", "09", "01", "02"):
            await history.add(await deployment(bucket, component_artifact(tmp_path, id_), id_))
            live = await history.activate("shop", id_, at_ns=1, by="", revision=revision)
            assert isinstance(live, Live)
            revision = live.revision
        await history.forget_old("shop", limit=2)
        assert [each.id for each in await history.deployments("shop")] == ["09", "08", "02", "01"]

    opened(tmp_path / "bucket", scenario)


def test_forget_old_retains_newest_and_live_deployments(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        for number in range(6):
            await history.add(await deployment(bucket, component_artifact(tmp_path), f"0{number}"))
        await history.activate("shop", "01", at_ns=1, by="a", revision=None)
        for _ in range(2):
            await history.forget_old("shop", limit=2)
            assert [each.id for each in await history.deployments("shop")] == ["05", "04", "01"]

    opened(tmp_path / "bucket", scenario)


def test_gc_removes_unreferenced_blobs_after_grace_period(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        record = await deployment(bucket, component_artifact(tmp_path, "kept", "script", b"{}"), "01")
        await history.add(record)
        loose = component_artifact(tmp_path, "loose", "script", b"{}")  # shares script and source map
        package = (await stored(bucket, loose)).package
        later = time.time_ns() + 2 * GRACE_NS
        assert await collect_garbage(bucket, time.time_ns()) == GcReport(0, 0, 0)
        assert await collect_garbage(bucket, time.time_ns() + GRACE_NS // 2) == GcReport(0, 0, 0)
        swept = await collect_garbage(bucket, later)
        assert swept.blobs == 2  # its component, and its document
        assert swept.bytes > loose.component.stat().st_size
        assert not await exists(bucket.blobs, package)
        await touch(bucket.blobs, record.resources["web"].package)
        assert await collect_garbage(bucket, later) == GcReport(0, 0, 0)
        await history.add(replace(record, id="02"))
        await history.forget_old("shop", limit=1)
        assert [each.id for each in await history.deployments("shop")] == ["02"]
        assert await collect_garbage(bucket, later) == GcReport(0, 0, 0)
        await history.forget_old("shop", limit=0)
        assert await history.deployments("shop") == []
        assert (await collect_garbage(bucket, later)).blobs == 4
        assert [info async for info in bucket.blobs.list()] == []

    opened(tmp_path / "bucket", scenario)


def test_gc_removes_abandoned_uploads(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        record = await deployment(bucket, component_artifact(tmp_path), "01")
        digest = record.resources["web"].artifact
        assert await bucket.blobs.delete(digest, FOREVER)

        async def beginning() -> AsyncGenerator[bytes, None]:
            yield b"beg"

        assert await bucket.blobs.upload(digest, 99, 0, beginning()) == 3
        assert (await collect_garbage(bucket, time.time_ns())).uploads == 0
        assert (await collect_garbage(bucket, time.time_ns() + 2 * GRACE_NS)).uploads == 1

    opened(tmp_path / "bucket", scenario)


def test_gc_with_missing_package_removes_no_blob(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        record = await deployment(bucket, component_artifact(tmp_path, "kept"), "01")
        await history.add(record)
        await stored(bucket, component_artifact(tmp_path, "loose"))
        assert await bucket.blobs.delete(record.resources["web"].package, FOREVER)
        before = {info.digest async for info in bucket.blobs.list()}
        with pytest.raises(GarbageError, match="deployment 01 of shop"):
            await collect_garbage(bucket, time.time_ns() + 2 * GRACE_NS)
        assert {info.digest async for info in bucket.blobs.list()} == before
        await stored(bucket, component_artifact(tmp_path, "kept"))
        assert (await collect_garbage(bucket, time.time_ns() + 2 * GRACE_NS)).blobs == 2

    opened(tmp_path / "bucket", scenario)


class Meanwhile:
    """A bucket that runs an action once, just before a key with this prefix changes."""

    def __init__(self, bucket: FolderBucket, prefix: str, happens: Callable[[], Awaitable[object]]) -> None:
        self.blobs, self.kv = bucket.blobs, self
        self._cells = bucket.kv
        self._prefix = prefix
        self._happens: Callable[[], Awaitable[object]] | None = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cells, name)

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        happens, self._happens = self._happens, None if key.startswith(self._prefix) else self._happens
        if happens is not None and key.startswith(self._prefix):
            await happens()
        return await self._cells.cas(key, value, revision)


@pytest.mark.parametrize("first", ["forget", "flip"])
def test_deployment_activated_while_forgotten_is_retained(tmp_path: Path, first: str) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        history = DeploymentHistory(bucket)
        for id_ in ("01", "02"):
            await history.add(await deployment(bucket, component_artifact(tmp_path, id_), id_))
        live = await history.activate("shop", "02", at_ns=1, by="a", revision=None)
        assert isinstance(live, Live)

        def flip(history: DeploymentHistory) -> Awaitable[object]:
            return history.activate("shop", "01", at_ns=2, by="a", revision=live.revision)

        def forget(history: DeploymentHistory) -> Awaitable[object]:
            return history.forget_old("shop", limit=0)

        if first == "forget":
            await forget(DeploymentHistory(Meanwhile(bucket, "deployments/", lambda: flip(history))))
        else:
            await flip(DeploymentHistory(Meanwhile(bucket, "live/", lambda: forget(history))))
        now = await history.live("shop")
        assert now is not None
        assert now.deployment == "01"
        assert (await history.get("shop", "01")).id == "01"

    opened(tmp_path / "bucket", scenario)
