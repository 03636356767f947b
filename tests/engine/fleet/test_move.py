"""The copy of a storage to its fleet: after failures and kills, the folder or the fleet is whole."""

import asyncio
import errno
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from doors.tables.sqlite.connections import is_replica, open_owner, open_replica
from engine.bucket import copy
from engine.bucket.copy import CopyReport
from engine.bucket.folder import FolderBucket
from engine.bucket.layout import MOVED
from engine.errors import SvcError
from engine.fleet.bucket import JetStreamBucket
from engine.fleet.connection import ClusterAddress
from engine.fleet.node import NODE_FOLDER, FleetNode
from engine.fleet.registry import Member, Registry
from engine.http.sockets import authority, bind
from svc_tui.serve.runtime import ServiceSettings
from svc_tui.serve.server import _become_fleet
from svc_tui.serve.storage import check_replicable, check_tables, copy_storage
from tests.engine.fleet.cluster import Cluster, free_addresses
from tests.engine.fleet.killed_move import TABLES, VERSION, change, first_node, is_founding, move

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of the test in the cluster."""
    name = sha256(str(tmp_path).encode()).hexdigest()[:12]
    monkeypatch.setattr("engine.fleet.fleet.NAMESPACE", name)
    return name


@pytest.fixture
def data(cluster: Cluster, tmp_path: Path, namespace: str) -> Path:
    """The data directory of the first node of three, whose nats-servers are those of the cluster."""
    data, folder = tmp_path / "data ü", cluster.nodes[0].folder.parent
    node = FleetNode.read(folder)

    async def fill() -> None:
        bucket = FolderBucket(data)
        registry = Registry(bucket.kv, VERSION)
        for id_, address in zip((node.node, "n2-a", "n3-b"), free_addresses(3), strict=True):
            await registry.add(Member(id=id_, **address._asdict(), version=VERSION, keeper=True))
        await bucket.aclose()

    asyncio.run(fill())
    shutil.copytree(folder, data / NODE_FOLDER, ignore=shutil.ignore_patterns("nats"))
    node.save(data / NODE_FOLDER, state="founding", keeper=False)
    (data / TABLES).parent.mkdir(parents=True)
    with closing(open_owner(data / TABLES)) as connection:
        connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    return data


def numbers(path: Path) -> list[int]:
    with closing(open_replica(path)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM numbers")]


async def contents(bucket: FolderBucket | JetStreamBucket) -> tuple[dict[str, bytes], set[str]]:
    values = {value.key: value.value for value in await bucket.kv.list("")}
    return values, {info.digest async for info in bucket.blobs.list()}


def assert_moved(data: Path, address: ClusterAddress, namespace: str, target: Path) -> None:
    """Assert that the fleet has the storage, serves it, and that the folder is marked."""
    assert not is_founding(data)
    assert (data / MOVED).exists()
    (data / MOVED).unlink()

    async def check() -> None:
        bucket = await JetStreamBucket.open(address, namespace, target.with_name("uploads"))
        folder = FolderBucket(data)
        back = FolderBucket(target)
        try:
            registry = Registry(bucket.fleet, VERSION)
            assert await registry.serves()
            assert len(await registry.members()) == 3
            values, blobs = await contents(folder)
            values = {key: value for key, value in values.items() if not key.startswith("fleet/")}
            assert await contents(bucket) == (values, blobs)
            assert await check_tables(data, bucket) == (1, [])
            await copy_storage(data, bucket, back)
            assert await contents(back) == (values, blobs)
        finally:
            for each in (bucket, folder, back):
                await each.aclose()

    asyncio.run(check())
    assert numbers(target / TABLES) == numbers(data / TABLES)
    with closing(open_replica(target / TABLES)) as connection:
        assert not is_replica(connection)


def test_kill_at_each_question_leaves_the_folder_or_the_fleet(
    cluster: Cluster, data: Path, namespace: str, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "tests.engine.fleet.killed_move", str(data), namespace]
    process = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    match = re.fullmatch(r"kills=(\d+)\n", process.stdout)
    assert match, process.stdout + process.stderr
    assert int(match[1]) >= 25
    assert len(numbers(data / TABLES)) >= 20
    assert_moved(data, cluster.address, namespace, tmp_path / "back")


def differ(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Make the copy have other values than the folder."""
    values = copy._values

    async def changed(bucket: Any) -> dict[str, bytes]:
        found = await values(bucket)
        return {**found, "other": b""} if isinstance(bucket, JetStreamBucket) else found

    monkeypatch.setattr(copy, "_values", changed)


def fill_disk_for_state(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Fill the disk when the node is to become a member."""

    def write(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.fleet.node.write_atomic", write)


def fill_disk_for_tables(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Fill the disk when the tables are copied."""

    def save(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("doors.tables.replication.copy.save", save)


def lose_majority(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    """Lose the majority after the streams were found."""
    from engine.fleet.bucket import StreamKeyValue

    async def cas(*_: object) -> int:
        from engine.fleet.errors import Unavailable

        raise Unavailable("a write", 20)

    monkeypatch.setattr(StreamKeyValue, "cas", cas)


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        (differ, "the copy differs from its source"),
        (fill_disk_for_state, "No space left on device"),
        (fill_disk_for_tables, "the tables of shop cannot be copied"),
        (lose_majority, "the fleet did not answer"),
    ],
)
def test_failed_copy_leaves_the_folder_and_can_be_repeated(
    fail: Callable[[pytest.MonkeyPatch, Path], None],
    message: str,
    cluster: Cluster,
    data: Path,
    namespace: str,
    tmp_path: Path,
) -> None:
    asyncio.run(change(data, 1))
    with pytest.MonkeyPatch.context() as patch:
        fail(patch, data)
        with pytest.raises(SvcError, match=message):
            asyncio.run(move(data))
    assert is_founding(data)
    assert not (data / MOVED).exists()
    asyncio.run(change(data, 2))
    assert numbers(data / TABLES) == [1, 2]
    asyncio.run(move(data))
    assert_moved(data, cluster.address, namespace, tmp_path / "back")


def test_service_that_is_stopped_during_the_copy_answers_503_until_then(data: Path) -> None:
    async def copy_forever(_: Any) -> CopyReport:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        bucket, node, stop = FolderBucket(data), first_node(data), asyncio.Event()
        await node.start(bucket, partial(check_replicable, data))
        node.move = copy_forever  # type: ignore[method-assign]
        logged: list[str] = []
        settings = ServiceSettings(
            data=data,
            public=[],
            control=[],
            domain="localhost",
            origin="http://{}",
            certificate=None,
            grace=1,
            log=lambda level, text: logged.append(text),
            spare=bind("127.0.0.1", 0),
        )
        becoming = asyncio.ensure_future(_become_fleet(settings, bucket, node, stop, None))
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.get(f"http://{authority(settings.spare[0])}/")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        stop.set()
        await asyncio.wait_for(becoming, 60)
        await node.stop()
        await bucket.aclose()
        settings.spare[0].close()
        assert logged == []

    asyncio.run(main())
    assert is_founding(data)
