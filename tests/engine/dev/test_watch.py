import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import inotify_simple
import pytest

from engine.build.ignore import IgnoreRules
from engine.dev import watch
from engine.dev.watch import Watcher
from engine.errors import SvcError


class Watched:
    """A watched folder: its changes, and its warnings."""

    def __init__(self, root: Path) -> None:
        self.warnings: list[SvcError] = []
        self.watcher = Watcher(root, self.warnings.append)
        self.watcher.subscribe(self._add)
        self._seen: set[Path] = set()
        self._news = asyncio.Event()

    async def _add(self, paths: set[Path]) -> None:
        self._seen |= paths
        self._news.set()

    async def until(self, path: Path) -> set[Path]:
        """Wait until a path is reported; return all that were, and forget them."""
        async with asyncio.timeout(60):
            while path not in self._seen:
                self._news.clear()
                await self._news.wait()
        seen, self._seen = self._seen, set()
        return seen


@asynccontextmanager
async def watched(root: Path) -> AsyncIterator[Watched]:
    stop, folder = asyncio.Event(), Watched(root)
    running = asyncio.create_task(folder.watcher.run(stop))
    await folder.watcher.ready.wait()
    try:
        yield folder
    finally:
        stop.set()
        await running


def test_watch_ends_soon_after_a_change(tmp_path: Path) -> None:
    async def check() -> None:
        for _ in range(3):
            async with asyncio.timeout(60), watched(tmp_path) as folder:
                folder.watcher._news.set()
                await asyncio.sleep(watch.STEP_SECONDS / 2)

    run(check)


def run(check: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(check())  # type: ignore[arg-type]


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def out_of_watches(monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    """Make inotify refuse further folders, as the system does at its limit."""
    real, added = inotify_simple.INotify.add_watch, set[str]()

    def add_watch(self: inotify_simple.INotify, path: Path, mask: int) -> int:
        if str(path) not in added and len(added) >= allowed and path.is_dir():
            raise OSError(28, os.strerror(28))
        added.add(str(path))
        return int(real(self, path, mask))

    monkeypatch.setattr(
        watch, "INotify", type("Limited", (inotify_simple.INotify,), {"add_watch": add_watch})
    )


def test_change_is_reported_by_its_real_path_and_below_links_in_the_project(tmp_path: Path) -> None:
    file = write(tmp_path / "pkgs" / "lib" / "v.js")
    (tmp_path / "lib").symlink_to("pkgs/lib")
    (tmp_path / "loop").symlink_to(tmp_path)

    async def check() -> None:
        async with watched(tmp_path) as folder:
            file.write_text("1")
            assert await folder.until(file) == {file, tmp_path / "lib" / "v.js"}
            (tmp_path / "late").symlink_to("pkgs/lib")
            await folder.until(tmp_path / "late")
            file.write_text("2")
            assert tmp_path / "late" / "v.js" in await folder.until(file)

    run(check)


def test_folder_outside_of_the_project_is_watched_only_if_a_build_read_it(tmp_path: Path) -> None:
    root, read, other = tmp_path / "a", write(tmp_path / "b" / "read.js"), write(tmp_path / "c" / "other.js")
    root.mkdir()
    (root / "c").symlink_to(tmp_path / "c")

    async def check() -> None:
        async with watched(root) as folder:
            folder.watcher.include([read], read.stat().st_mtime_ns + 1)
            other.write_text("1")
            read.write_text("1")
            assert await folder.until(read) == {read}

    run(check)


def test_link_to_a_file_outside_is_reported_when_the_file_is_saved(tmp_path: Path) -> None:
    (root := tmp_path / "project").mkdir()
    (outside := tmp_path / "secrets").mkdir()
    (target := outside / "shop.env").write_text("KEY=1")
    (root / ".env").symlink_to(target)

    async def check() -> None:
        async with watched(root) as folder:
            target.write_text("KEY=2")
            await folder.until(root / ".env")
            (outside / "new").write_text("KEY=3")
            (outside / "new").rename(target)
            await folder.until(root / ".env")
            assert folder.warnings == []

    run(check)


def test_ignored_folder_is_not_watched_but_a_file_that_a_build_read_there_is(tmp_path: Path) -> None:
    module = write(tmp_path / "node_modules" / "m" / "index.js")
    other = write(tmp_path / "node_modules" / "other" / "index.js")
    write(tmp_path / "front" / ".gitignore", "gen/\n")
    generated = write(tmp_path / "front" / "gen" / "a.js")
    end = write(tmp_path / "end")

    async def check() -> None:
        async with watched(tmp_path) as folder:
            folder.watcher.include([module], module.stat().st_mtime_ns + 1)
            for path in (other, generated, module, end):
                path.write_text("1")
            assert await folder.until(end) == {module, end}
            shutil.rmtree(module.parent)
            await folder.until(module)
            write(module, "2")
            await folder.until(module)
            module.write_text("3")
            await folder.until(module)
            write(tmp_path / "front" / ".gitignore")
            await folder.until(tmp_path / "front" / ".gitignore")
            generated.write_text("2")
            await folder.until(generated)

    run(check)


def test_file_saved_during_the_build_that_first_read_it_is_reported(tmp_path: Path) -> None:
    read = write(tmp_path / "target" / "t.js")

    async def check() -> None:
        async with watched(tmp_path) as folder:
            folder.watcher.include([read], read.stat().st_mtime_ns)
            await folder.until(read)

    run(check)


def test_name_that_is_not_utf_8_does_not_end_the_watch(tmp_path: Path) -> None:
    bad, name = tmp_path / os.fsdecode(b"w\xe9") / os.fsdecode(b"new\xe9.txt"), tmp_path / "good"
    bad.parent.mkdir()

    async def check() -> None:
        async with watched(tmp_path) as folder:
            bad.touch()
            await folder.until(bad)
            name.write_text("")
            await folder.until(name)
            assert folder.warnings == []

    run(check)


def test_folder_that_cannot_be_watched_is_polled_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [write(tmp_path / "a" / name / "file") for name in ("b", "c", "d")]
    out_of_watches(monkeypatch, 2)

    async def check() -> None:
        async with watched(tmp_path) as folder:
            for path in files:
                path.write_text("changed")
                await folder.until(path)
            late = write(tmp_path / "a" / "c" / "late" / "file")
            await folder.until(late)
            late.write_text("changed")
            await folder.until(late)
            (warning,) = folder.warnings
            assert "cannot watch a/" in warning.message and "and 2 more" in warning.message
            assert "fs.inotify.max_user_watches" in warning.message and "sysctl" in warning.hint

    run(check)


def test_folders_are_polled_if_inotify_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable() -> None:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(watch, "INotify", unavailable)
    file = write(tmp_path / "a" / "file")

    async def check() -> None:
        async with watched(tmp_path) as folder:
            file.write_text("changed")
            await folder.until(file)
            assert "fs.inotify.max_user_instances" in folder.warnings[0].message

    run(check)


@pytest.mark.parametrize("recursive", [False, True])
def test_moved_replaced_and_new_folders_stay_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, recursive: bool
) -> None:
    """`recursive` is what other systems than Linux have."""
    monkeypatch.setattr(watch, "RECURSIVE", recursive)
    root = tmp_path / "root"
    file = write(root / "a" / "b" / "file")
    write(tmp_path / "new" / "b" / "file")

    async def check() -> None:
        async with watched(root) as folder:
            (root / "a").rename(root / "z")
            await folder.until(root / "z")
            (root / "z" / "b" / "file").write_text("1")
            await folder.until(root / "z" / "b" / "file")
            (root / "z").rename(root / "a")
            await folder.until(root / "a")
            file.write_text("2")
            await folder.until(file)
            shutil.rmtree(root / "a")
            (tmp_path / "new").rename(root / "a")
            await folder.until(file)
            file.write_text("3")
            await folder.until(file)

    run(check)


def test_lost_events_count_as_changes_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a" / "file")

    def overflow(self: inotify_simple.INotify, timeout: int) -> list[inotify_simple.Event]:
        read(self, timeout=timeout)
        return [inotify_simple.Event(-1, inotify_simple.flags.Q_OVERFLOW, 0, "")]

    read = inotify_simple.INotify.read

    async def check() -> None:
        async with watched(tmp_path) as folder:
            monkeypatch.setattr(inotify_simple.INotify, "read", overflow)
            (tmp_path / "other").touch()
            assert tmp_path in await folder.until(file)

    run(check)


def test_build_that_ends_after_the_watch_is_left_alone(tmp_path: Path) -> None:
    read = write(tmp_path / "outside" / "read.js")
    (tmp_path / "root").mkdir()

    async def check() -> None:
        async with watched(tmp_path / "root") as folder:
            pass
        folder.watcher.include([read], 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(check)


def test_removed_project_folder_is_reported_and_may_return(tmp_path: Path) -> None:
    root = tmp_path / "root"
    file = write(root / "file")

    async def check() -> None:
        async with watched(root) as folder:
            shutil.rmtree(root)
            await folder.until(root)
            write(file)
            await folder.until(file)

    run(check)


def test_gitignore_of_windows_editors_has_all_its_rules(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfdist/\r\n*.log\r\n")
    ignored = IgnoreRules(tmp_path)
    assert ignored(tmp_path / "dist" / "a.js") and ignored(tmp_path / "a.log")


def test_nearest_gitignore_decides_below_folders_that_are_not_ignored(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "*.log\nout/\n/top\n")
    write(tmp_path / "front" / ".gitignore", "gen/\n!keep.log\n/here\n")
    write(tmp_path / "out" / ".gitignore", "!*\n")
    ignored = IgnoreRules(tmp_path)
    expected = {
        "a.log": True,
        "front/a.log": True,
        "front/keep.log": False,
        "front/gen/a": True,
        "front/src/gen/a": True,
        "gen/a": False,
        "front/here": True,
        "front/src/here": False,
        "front/top": False,
        "top": True,
        "out/a": True,
        "front/node_modules/a": True,
    }
    assert {name: ignored(tmp_path / name) for name in expected} == expected
    assert ignored.folder(tmp_path / "front" / "gen") and not ignored.folder(tmp_path)
    assert not ignored(tmp_path.parent / "a.log")


@pytest.mark.parametrize(("name", "gone"), [(".env", False), (".env", True), ("svc.toml", False)])
def test_file_that_is_being_saved_is_reported_once_it_has_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, gone: bool
) -> None:
    monkeypatch.setattr(watch, "EMPTY_SECONDS", 1.0)
    file = write(tmp_path / name, "before")
    contents = []

    async def read(paths: set[Path]) -> None:
        contents.append(file.read_text() if file.exists() else "")

    async def check() -> None:
        async with watched(tmp_path) as folder:
            folder.watcher.subscribe(read)
            file.unlink() if gone else file.write_text("")
            await asyncio.sleep(0.1)
            file.write_text("after")
            await folder.until(file)

    run(check)
    assert contents == ["after"]


def test_file_that_stays_empty_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path / ".env", "before")

    async def check() -> None:
        async with watched(tmp_path) as folder:
            for change in (lambda: file.write_text(""), file.unlink):
                change()
                await folder.until(file)

    run(check)
