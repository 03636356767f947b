"""Garbage collection of unpacked packages."""

import asyncio
import os
import time
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from engine.deploy.deployment import DeploymentHistory
from engine.deploy.gc import GRACE_NS, GarbageError, GcReport, collect_garbage
from engine.deploy.package_store import COMPONENT, PackageError, unpack
from engine.wasm.compile.code_cache import compile_component, evict_code
from engine.wasm.compile.compilers import Compiler, code_key
from tests.engine.bucket.test_blobs import NEVER, pieces
from tests.engine.deploy.packing import component_artifact, deployment, opened, stored
from tests.engine.service.serving import Served, served
from tests.engine.wasm.test_memory_image import FILL, compiled, with_data
from tests.support.blobs import exists

FOREVER = 1 << 62


def age(path: Path, by_ns: int) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - by_ns))


def test_gc_removes_unreferenced_objects_after_grace_period(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        unpacked, now = tmp_path / "unpacked", time.time_ns()
        assert await collect_garbage(bucket, now, unpacked=unpacked) == GcReport(0, 0, 0)
        record = await deployment(bucket, component_artifact(tmp_path, "stored"), "01")
        await DeploymentHistory(bucket).add(record)
        needed, loose = (
            record.resources["web"].package,
            await stored(bucket, component_artifact(tmp_path, "loose")),
        )
        for package in (needed, loose.package):
            await unpack(bucket.blobs, package, unpacked)
        strangers = [unpacked / "file", unpacked / "folder" / "file", unpacked / ("a" * 64)]
        strangers[1].parent.mkdir()
        for path in strangers:
            path.write_text("not ours")
        (unpacked / ("b" * 64)).symlink_to(tmp_path)
        for path in unpacked.iterdir():
            if not path.is_symlink():
                age(path, GRACE_NS // 2)
        assert await collect_garbage(bucket, now, unpacked=unpacked) == GcReport(0, 0, 0)
        later = now + GRACE_NS
        planned = await collect_garbage(bucket, later, unpacked=unpacked, count_only=True)
        assert planned.unpacked == 1 and (unpacked / loose.package / COMPONENT).exists()
        assert (await collect_garbage(bucket, later, unpacked=unpacked)).unpacked == 1
        assert not (unpacked / loose.package).exists()
        assert (unpacked / needed / COMPONENT).exists() and (tmp_path / "bucket").exists()
        assert [path.read_text() for path in strangers] == ["not ours"] * 3
        assert {path.name for path in unpacked.iterdir()} == {"file", "folder", "a" * 64, "b" * 64, needed}

    opened(tmp_path / "bucket", scenario)


def test_gc_of_files_only_removes_abandoned_uploads_and_no_blobs(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        loose = await stored(bucket, component_artifact(tmp_path, "loose"))
        assert await bucket.blobs.upload(NEVER, 9, 0, pieces(b"begun")) == 5
        later = time.time_ns() + 2 * GRACE_NS
        assert await collect_garbage(bucket, later, files_only=True) == GcReport(0, 0, 1)
        assert await exists(bucket.blobs, loose.package)

    opened(tmp_path / "bucket", scenario)


def test_gc_retains_package_unpacked_again(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        unpacked = tmp_path / "unpacked"
        package = (await stored(bucket, component_artifact(tmp_path))).package
        await unpack(bucket.blobs, package, unpacked)
        age(unpacked / package, 2 * GRACE_NS)
        await unpack(bucket.blobs, package, unpacked)
        assert (await collect_garbage(bucket, time.time_ns(), unpacked=unpacked)).unpacked == 0
        age(unpacked / package, 2 * GRACE_NS)
        assert (await collect_garbage(bucket, time.time_ns(), unpacked=unpacked)).unpacked == 1
        assert await exists(bucket.blobs, package)
        await unpack(bucket.blobs, package, unpacked)

    opened(tmp_path / "bucket", scenario)


@pytest.mark.parametrize("name", [".new-abc", ".gone-0123"])
def test_gc_removes_partial_folders_of_killed_process(tmp_path: Path, name: str) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        leftover = tmp_path / "unpacked" / name
        (leftover / "blobs").mkdir(parents=True)
        (leftover / "blobs" / "file").write_text("half")
        assert (await collect_garbage(bucket, time.time_ns(), unpacked=leftover.parent)).unpacked == 0
        age(leftover, 2 * GRACE_NS)
        assert (await collect_garbage(bucket, time.time_ns(), unpacked=leftover.parent)).unpacked == 1
        assert list(leftover.parent.iterdir()) == []

    opened(tmp_path / "bucket", scenario)


def test_gc_plan_reports_what_gc_removes(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        loose = await stored(bucket, component_artifact(tmp_path, "loose", "script", b"{}"))
        await unpack(bucket.blobs, loose.package, tmp_path / "unpacked")
        digest = component_artifact(tmp_path, "wanted").digest

        async def beginning():  # type: ignore[no-untyped-def]
            yield b"beg"

        await bucket.blobs.upload(digest, 99, 0, beginning())  # type: ignore[arg-type]
        later = time.time_ns() + 2 * GRACE_NS
        planned = [
            await collect_garbage(bucket, later, unpacked=tmp_path / "unpacked", count_only=True)
            for _ in range(2)
        ]
        result = await collect_garbage(bucket, later, unpacked=tmp_path / "unpacked")
        assert planned == [result, result]
        assert result == GcReport(4, result.bytes, 1, 1)
        assert await collect_garbage(bucket, later, unpacked=tmp_path / "unpacked") == GcReport(0, 0, 0)

    opened(tmp_path / "bucket", scenario)


def test_gc_with_missing_package_removes_no_unpacked_folder(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        record = await deployment(bucket, component_artifact(tmp_path, "stored"), "01")
        await DeploymentHistory(bucket).add(replace(record, id="02"))
        loose = (await stored(bucket, component_artifact(tmp_path, "loose"))).package
        await unpack(bucket.blobs, loose, tmp_path / "unpacked")
        assert await bucket.blobs.delete(record.resources["web"].package, FOREVER)
        later = time.time_ns() + 2 * GRACE_NS
        with pytest.raises(GarbageError):
            await collect_garbage(bucket, later, unpacked=tmp_path / "unpacked")
        assert (tmp_path / "unpacked" / loose / COMPONENT).exists()

    opened(tmp_path / "bucket", scenario)


def test_gc_with_unreadable_folder_raises_package_error(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        (tmp_path / "unpacked").write_text("a file")
        with pytest.raises(PackageError, match="cannot remove unpacked packages"):
            await collect_garbage(bucket, time.time_ns(), unpacked=tmp_path / "unpacked")

    opened(tmp_path / "bucket", scenario)


def test_gc_removes_machine_code_of_components_that_no_deployment_has(tmp_path: Path) -> None:
    async def scenario(bucket: FolderBucket) -> None:
        record = await deployment(bucket, component_artifact(tmp_path, "stored"), "01")
        await DeploymentHistory(bucket).add(record)
        folder = tmp_path / "cache" / "compiled"
        folder.mkdir(parents=True)
        key = code_key(Compiler.OPTIMIZING)
        artifact, loose = record.resources["web"].artifact, "a" * 64
        names = {
            f"{artifact}-{key}.cwasm": True,
            f"{artifact}-{key}.lock": True,
            f"{artifact}-wasmtime-1.0.0-cranelift-1.cwasm": False,
            f"{loose}-{key}.cwasm": False,
            f"{loose}-{key}.lock": False,
            f"code-{loose}-{key}.cwasm": False,
            f".{loose}-{key}.cwasm-x1.tmp": False,
        }
        for name in names:
            (folder / name).write_text("code")
        collect = partial(collect_garbage, bucket, cache=tmp_path / "cache")
        assert (await collect(time.time_ns())).machine_code == 0
        later = time.time_ns() + 2 * GRACE_NS
        assert (await collect(later, count_only=True)).machine_code == 4
        assert len(list(folder.iterdir())) == len(names)
        assert (await collect(later)).machine_code == 4
        assert {path.name for path in folder.iterdir()} == {name for name, stays in names.items() if stays}

    opened(tmp_path / "bucket", scenario)


def test_used_machine_code_is_retained(tmp_path: Path) -> None:
    artifact = component_artifact(tmp_path)

    async def compiled() -> Path:
        report: list[str] = []
        component = await compile_component(
            artifact.component, artifact.digest, tmp_path, fast=True, report=report.append
        )
        return component.path

    path = asyncio.run(compiled())
    age(path, 2 * GRACE_NS)
    assert evict_code(tmp_path, (), time.time_ns() - GRACE_NS, count_only=True) == 1
    assert asyncio.run(compiled()) == path
    assert evict_code(tmp_path, (), time.time_ns() - GRACE_NS) == 0
    age(path, 2 * GRACE_NS)
    assert evict_code(tmp_path, (), time.time_ns() - GRACE_NS) == 1
    assert asyncio.run(compiled()) == path


def test_initial_memory_and_shared_code_of_needed_components_stay(tmp_path: Path) -> None:
    binary = with_data((65536, FILL))
    digest = sha256(binary).hexdigest()
    component = compiled(binary, tmp_path)
    assert component.image is not None
    for path in (tmp_path / "compiled").iterdir():
        age(path, 2 * GRACE_NS)
    assert evict_code(tmp_path, (digest,), time.time_ns() - GRACE_NS) == 0
    assert evict_code(tmp_path, (), time.time_ns() - GRACE_NS) == 3  # code, base and image
    assert not list((tmp_path / "compiled").glob("*.*m*"))


def test_file_that_vanishes_while_code_is_removed_is_no_error(tmp_path: Path) -> None:
    """As a partial file of the compiler of another deploy, which it renames."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    (folder / ".partial.cwasm-x1.tmp").symlink_to(folder / "renamed")
    (folder / "loose-key.cwasm").write_text("code")
    assert evict_code(tmp_path, (), FOREVER) == 1


def test_collections_at_once_follow_one_another(tmp_path: Path) -> None:
    """That of an owner, and the daily one."""

    async def scenario(running: Served) -> None:
        for number in range(5):
            folder = tmp_path / "unpacked" / f"{number:064x}"
            folder.mkdir(parents=True)
            for name in range(1000):
                (folder / f"{name}").touch()
            age(folder, 2 * GRACE_NS)
        reports = await asyncio.gather(*(running.service.collect_garbage() for _ in range(4)))
        assert [report.unpacked for report in reports] == [5, 0, 0, 0]

    served(tmp_path, scenario)
