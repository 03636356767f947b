"""Packing of static bundles: cancellation, vanishing files, slow progress."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.lane import BuildFailed
from engine.static_files.bundle import read_index
from lanes.static.pack import Packing, pack


class Watched(ThreadPoolExecutor):
    """Threads that signal when they receive work."""

    def __init__(self, progress: Callable[[], None]) -> None:
        super().__init__(2)
        self._progress = progress

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        self._progress()
        return super().submit(*args, **kwargs)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "aus gabe ü"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.js").write_text(os.urandom(20_000).hex())
    return folder


def test_canceled_packing_leaves_no_partial_files_and_can_be_repeated(output: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        started = asyncio.Event()
        with Watched(started.set) as workers:
            packing = Packing(tmp_path / "cache", 11, 9, workers, lambda line: None, verify=True)
            job = asyncio.create_task(pack(output, packing))
            await started.wait()
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            assert not (tmp_path / "cache" / "images").exists()
            assert len(read_index(await pack(output, packing))) == 30

    asyncio.run(scenario())
    assert not list((tmp_path / "cache").rglob(".*.tmp"))


def test_file_removed_while_packing_is_reported(output: Path, tmp_path: Path) -> None:
    def vanish() -> None:
        for number in (7, 8, 9):
            (output / f"{number}.js").unlink(missing_ok=True)

    with Watched(vanish) as workers:
        packing = Packing(tmp_path / "cache", 5, 6, workers, lambda line: None, verify=True)
        with pytest.raises(BuildFailed, match=r"/[789]\.js cannot be packed: No such file") as exc_info:
            asyncio.run(pack(output, packing))
    assert "build again" in exc_info.value.hint
    assert not (tmp_path / "cache" / "images").exists()
    assert not list((tmp_path / "cache").rglob(".*.tmp"))


def test_large_file_is_named_with_its_size(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanes.static.pack._LARGE", 2 << 20)
    monkeypatch.setattr("lanes.static.pack._PROGRESS_SECS", 0.01)
    (output / "big.csv").write_bytes(os.urandom(3 << 19) * 2)
    lines: list[str] = []
    with ThreadPoolExecutor(1) as workers:
        asyncio.run(pack(output, Packing(tmp_path / "cache", 5, 6, workers, lines.append, verify=True)))
    assert lines[0] == "big.csv has 3 MiB: files of that size make builds and deploys slow"
    assert "of 31 done; largest to do: big.csv, 3 MiB …" in lines[1]
    assert len(lines) < 15
    assert not [line for line in lines if ", 0 MiB" in line]
