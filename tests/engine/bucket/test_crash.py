"""Killed processes lose no acknowledged write and leave no partial one."""

import asyncio
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from engine.bucket.folder import FolderBucket
from tests.engine.bucket.busy import content

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
KILLS = 12
A_KILL = 100_000
"""Numbers per round."""


@pytest.mark.parametrize(("way", "least"), [("work", 25), ("upgrade", 5)])
def test_kill_after_any_disk_change_loses_no_acknowledged_write(tmp_path: Path, way: str, least: int) -> None:
    command = [sys.executable, "-m", "tests.engine.bucket.killed", str(tmp_path), way]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    match = re.fullmatch(r"changes=(\d+)\n", process.stdout)
    assert match, process.stdout + process.stderr
    assert int(match[1]) >= least


def test_kill_at_any_time_loses_no_acknowledged_write(tmp_path: Path) -> None:
    root = tmp_path / "bucket"
    acknowledged: set[tuple[str, int]] = set()
    for kill in range(KILLS):
        command = [sys.executable, "-m", "tests.engine.bucket.busy", str(root), str(kill * A_KILL)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(10 + kill * 37 % 400)]
            writer.kill()
            lines += writer.stdout.readlines()
        acknowledged |= {(kind, int(number)) for kind, number in map(str.split, lines)}
        asyncio.run(check(root, acknowledged))
    print(f"acked={len(acknowledged)} missing=0")


async def check(root: Path, acknowledged: set[tuple[str, int]]) -> None:
    bucket = FolderBucket(root)
    for info in [info async for info in bucket.blobs.list()]:
        await bucket.blobs.get(info.digest)
    blobs = {info.digest async for info in bucket.blobs.list()}
    cells = {cell.key: cell.value for cell in await bucket.kv.list("")}
    for key, value in cells.items():
        assert value == content(int(key.removeprefix("cell ")))
    exists = {
        "blob": lambda number: sha256(content(number)).hexdigest() in blobs,
        "cell": lambda number: f"cell {number}" in cells,
    }
    assert [(kind, number) for kind, number in acknowledged if not exists[kind](number)] == []
    await bucket.aclose()
