"""Kills and garbage collection leave the old or the new file, and no row without its bytes."""

import asyncio
import multiprocessing
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from doors.tables.project_database import ProjectDatabase
from engine.deploy.gc import GRACE_NS
from tests.doors.files.busy import CONTENTS, FAR_MS, KEYS, collect, main
from tests.doors.files.files_door import Files
from tests.doors.files.killed import NEW

OLD = b"old" * 500_000


@pytest.mark.slow
def test_kill_at_each_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    seen = set()
    for step in range(1, 100):
        files = Files(folder := tmp_path / str(step))

        async def test(files: Files = files) -> bytes | None:
            return await files.content("a")

        asyncio.run(files.put("a", OLD))
        command = [sys.executable, "-m", "tests.doors.files.killed", str(folder), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 9), done.stderr
        content = asyncio.run(test())
        assert content in (OLD, NEW)
        assert content == NEW or done.returncode == 9
        seen.add(content)
        later = time.time_ns() + 2 * GRACE_NS
        asyncio.run(remove_all(files, later))
        assert len(files.stored()) == 1 and not list((folder / "uploads").iterdir())
        assert asyncio.run(test()) == content
        if done.returncode == 0:
            assert int(done.stdout) == step - 1 >= 10
            break
    assert seen == {OLD, NEW}


async def remove_all(files: Files, later_ns: int) -> None:
    await collect(files, FAR_MS, later_ns)
    await files.blobs.delete_uploads(later_ns)


def test_removed_bytes_stay_as_long_as_the_history_of_the_tables(tmp_path: Path) -> None:
    async def test() -> None:
        files, later = Files(tmp_path), time.time_ns() + 2 * GRACE_NS
        await files.put("a", OLD)
        await files.put("b", OLD)
        await files.put("a", NEW)
        assert await collect(files, FAR_MS, later) == (0, 0)
        await files.ask("DELETE", "/v1/files/b")
        assert await collect(files, 0, later) == (0, 0)
        assert await collect(files, FAR_MS, time.time_ns() - GRACE_NS) == (0, 0), "the grace period"
        assert await collect(files, FAR_MS, later) == (1, len(OLD))
        assert await files.content("a") == NEW

    asyncio.run(test())


@pytest.mark.slow
def test_collector_beside_puts_of_the_same_bytes_loses_nothing(tmp_path: Path) -> None:
    """Old blobs without a row are collected while they are stored again, also by another process."""
    rng = random.Random(4)
    contents = [rng.randbytes(1000 + each) for each in range(5)]

    async def test() -> None:
        files, other = Files(tmp_path), Files(tmp_path)
        await files.put("first", b"")
        for _ in range(30):
            for path in (tmp_path / "blobs").glob("*"):
                os.utime(path, (1, 1))
            puts = [
                rng.choice([files, other]).put(key, rng.choice(contents)) for key in rng.sample("abcdefgh", 4)
            ]
            tasks = [asyncio.ensure_future(put) for put in puts]
            before = time.time_ns() - GRACE_NS
            await asyncio.gather(collect(files, FAR_MS, before), *tasks, collect(other, FAR_MS, before))
            for key in "abcdefgh":
                assert await files.content(key) in [None, *contents]
            for key in rng.sample("abcdefgh", 3):
                await files.ask("DELETE", f"/v1/files/{key}")

    asyncio.run(test())


@pytest.mark.nightly
@pytest.mark.slow(seconds=60)
def test_collectors_of_processes_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    """Half of the files are removed before each round, in which processes store and copy their old blobs."""
    chance, context = random.Random(41), multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.doors.files.busy"])
    asyncio.run(Files(tmp_path).put("first", b""))
    killed = 0

    async def contents() -> list[bytes | None]:
        return [await files.content(key) for key in KEYS]

    def remove_half(connection: Any) -> None:
        connection.execute("DELETE FROM _svc_files WHERE abs(random()) % 2")

    for number in range(20):
        ProjectDatabase(tmp_path).write(remove_half, "")
        for path in (tmp_path / "blobs").glob("*"):
            os.utime(path, (1, 1))
        arguments = ((tmp_path, 3 * number + each, 4) for each in range(3))
        processes = [context.Process(target=main, args=each) for each in arguments]
        for process in processes:
            process.start()
        processes[0].join(chance.uniform(0.1, 1.0))
        processes[0].kill()
        for process in processes:
            process.join()
        killed += processes[0].exitcode != 0
        assert {each.exitcode for each in processes[1:]} == {0}
        files = Files(tmp_path)
        assert set(asyncio.run(contents())) <= {None, *CONTENTS}
    assert killed > 5
    asyncio.run(collect(files, FAR_MS, time.time_ns() + GRACE_NS))
    stored = [*asyncio.run(contents()), asyncio.run(files.content("first"))]
    assert len(files.stored()) == len(set(stored) - {None})
