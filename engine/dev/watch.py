"""File watcher of a project, and the listener that rebuilds resources or applies the manifest."""

import asyncio
import contextlib
import errno
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from engine.build.ignore import IgnoreRules
from engine.dev.env_file import ENV_FILE
from engine.dev.project import BuildWriteFilter, DevProject
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.model import Project

if sys.platform == "linux":
    from inotify_simple import INotify, flags

    _EVENTS = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.MODIFY | flags.ATTRIB
    _EVENTS |= flags.CLOSE_WRITE | flags.ONLYDIR | flags.DONT_FOLLOW | flags.EXCL_UNLINK

STEP_SECONDS = 0.003
"""Pause that ends a burst of changes."""
EMPTY_SECONDS = 0.05
"""Pause for the content of an empty file: most programs empty a file before they write it."""
POLL_SECONDS = 0.5
"""Minimum pause between two looks at folders that cannot be watched."""
RECURSIVE = sys.platform != "linux"
"""Whether the system reports changes of a whole tree, and not of single folders."""
_LIMITS = {errno.ENOSPC: "max_user_watches=1048576", errno.EMFILE: "max_user_instances=1024"}
_MISSING = (errno.ENOENT, errno.ENOTDIR)

FileListener = Callable[[set[Path]], Awaitable[None]]
_Stamps = dict[Path, tuple[int, ...]]


class Watcher:
    """Watches the folders of a project and publishes batches of changed paths to its subscribers, in order.

    Ignored folders are not watched. Links are followed to files, not to folders outside of the project. Paths
    are real, and also given below each link in the project that leads to them. Folders that cannot be watched
    are polled. `root` is resolved.
    """

    def __init__(self, root: Path, warn: Callable[[SvcError], None]) -> None:
        self._root = root
        self._warn = warn
        self._listeners: list[FileListener] = []
        self._included: dict[Path, set[Path]] = {root: {root}}
        self._links: dict[Path, Path] = {}
        self._inotify: INotify | None = None
        self._watches: dict[Path, int] = {}
        self._folders: dict[int, Path] = {}
        self._failure: OSError | None = None
        self._polled: dict[Path, _Stamps] = {}
        self._polling: asyncio.Task[None] | None = None
        self._warned: set[int | None] = {None, *_MISSING}
        self._changed: set[Path] = set()
        self._news = asyncio.Event()
        self.ignored = IgnoreRules(root)
        self.ready = asyncio.Event()
        """Set while the watch runs: changes are not missed."""

    def subscribe(self, listener: FileListener) -> None:
        self._listeners.append(listener)

    def include(self, paths: Iterable[Path], since_ns: int) -> None:
        """Publish changes of these files too, although their folders are ignored or outside of the project.

        Files that were written since then (Unix epoch, ns) are published at once.
        """
        for path in paths if self.ready.is_set() else ():
            if path not in self._included_beside(path):
                self._included[path.parent].add(path)
                with contextlib.suppress(OSError):
                    self._report({path} if path.stat().st_mtime_ns >= since_ns else set())

    def _included_beside(self, path: Path) -> set[Path]:
        """Watch the folder of a file; return the files in it whose changes are published."""
        if (parent := path.parent) not in self._included:
            folder = Path(os.path.realpath(parent))
            self._included[parent] = self._included.setdefault(folder, set())
            if folder != parent:
                self._links[parent] = folder
            if folder not in self._watches:
                self._watch(folder)
        return self._included[parent]

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Start this before the first build."""
        loop = asyncio.get_running_loop()
        loop.create_task(stop.wait()).add_done_callback(lambda _: self._news.set())
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(lambda: self._polling and self._polling.cancel())
            if RECURSIVE:
                stack.push_async_callback(asyncio.gather, loop.create_task(self._watch_tree(stop)))
            elif "microsoft" in platform.release().lower() and self._root.is_relative_to("/mnt"):
                self._failure = OSError(errno.ENOTSUP, "WSL reports no changes on drives of Windows")
            else:
                try:
                    self._inotify = stack.enter_context(await asyncio.to_thread(INotify))
                    loop.add_reader(self._inotify.fd, self._read)
                    stack.callback(loop.remove_reader, self._inotify.fd)
                except OSError as error:
                    self._failure = error
            self._add(self._root)
            self.ready.set()
            stack.callback(self.ready.clear)
            while not stop.is_set():
                await self._news.wait()
                end = loop.time() + 10 * STEP_SECONDS
                while self._news.is_set() and loop.time() < end:
                    self._news.clear()
                    await asyncio.sleep(STEP_SECONDS)
                if any(map(_lacks_content, self._changed)):
                    await asyncio.sleep(EMPTY_SECONDS)
                self._news.clear()
                if not stop.is_set():
                    await self._publish()

    async def _watch_tree(self, stop: asyncio.Event) -> None:
        from watchfiles import Change, awatch  # not a dependency on Linux

        try:
            async for batch in awatch(
                self._root, watch_filter=None, step=3, debounce=30, stop_event=stop, rust_timeout=500
            ):
                for change, path in batch:
                    added = self._add(Path(path)) if change is Change.added else set()
                    self._report({Path(path)} | added)
        except Exception as error:
            self._failure = OSError(errno.EIO, str(error))
            self._report(self._add(self._root))

    async def _publish(self) -> None:
        paths, self._changed = self._changed, set()
        if any(path.name == ".gitignore" for path in paths):
            self.ignored.forget()
            self._add(self._root)
        for link, target in self._links.items():
            paths |= {link / path.relative_to(target) for path in paths if path.is_relative_to(target)}
        for listener in self._listeners:
            await listener(paths)

    def _report(self, paths: set[Path]) -> None:
        if paths:
            self._changed |= paths
            self._news.set()

    def _read(self) -> None:
        """Handle the events of inotify. Names of files may have bytes that are not UTF-8."""
        assert self._inotify is not None
        for event in self._inotify.read(timeout=0):
            folder = self._folders.get(event.wd)
            if event.mask & flags.Q_OVERFLOW:
                self._report(self._add(self._root).union(*self._included.values()))
            elif folder is not None and event.mask & flags.IGNORED:
                del self._folders[event.wd]
                if self._watches.get(folder) == event.wd:
                    del self._watches[folder]
                    self._report(self._included.get(folder, set()) | self._add(folder))
                    if folder in self._included:
                        self._watch(folder)
            elif folder is not None and event.name:
                path = folder / event.name
                self._report({path})
                if event.mask & (flags.CREATE | flags.MOVED_TO):
                    self._report(self._add(path))
                elif event.mask & flags.MOVED_FROM and event.mask & flags.ISDIR:
                    for watch in [self._watches[each] for each in self._watches if each.is_relative_to(path)]:
                        with contextlib.suppress(OSError):
                            self._inotify.rm_watch(watch)

    def _add(self, top: Path) -> set[Path]:
        """Watch a folder and those in it, except ignored ones; note links; return all that is in them."""
        found, waiting = set[Path](), [top]
        while waiting:
            path = waiting.pop()
            if path.is_symlink():
                target = Path(os.path.realpath(path))
                outside = not target.is_relative_to(self._root)
                if target.is_file() if outside else not path.is_relative_to(target):
                    self._links[path] = target
                if outside and path in self._links:
                    self._included_beside(target).add(target)
            elif path.is_dir() and (path in self._included or not self.ignored.folder(path)):
                self._watch(path)
                with contextlib.suppress(OSError), os.scandir(path) as entries:
                    for entry in entries:
                        found.add(each := path / entry.name)
                        if entry.is_dir() or entry.is_symlink():
                            waiting.append(each)
        return found

    def _watch(self, folder: Path) -> None:
        """Watch a folder, or poll it if that fails. One that is gone may return where no watch sees it."""
        try:
            if self._inotify is not None:
                watch = self._inotify.add_watch(folder, _EVENTS)
                self._folders[watch], self._watches[folder] = folder, watch
            elif self._failure or not folder.is_relative_to(self._root):
                raise self._failure or OSError
            self._polled.pop(folder, None)
        except OSError as error:
            if error.errno in _MISSING and (folder not in self._included or folder.parent in self._watches):
                self._polled.pop(folder, None)
                return
            if folder not in self._polled:
                self._polled[folder] = _stamps(folder)
            loop = asyncio.get_running_loop()
            if self._polling is None or self._polling.done():
                self._polling = loop.create_task(self._poll())
            if error.errno not in self._warned:
                self._warned.add(error.errno)
                loop.call_soon(self._warn_of, folder, error)

    def _warn_of(self, folder: Path, error: OSError) -> None:
        others = f" and {len(self._polled) - 1} more" if len(self._polled) > 1 else ""
        reason, hint = error.strerror, "Add folders without sources to .gitignore."
        if limit := _LIMITS.get(error.errno or 0):
            reason = f"the limit fs.inotify.{limit.partition('=')[0]} is reached"
            hint = f"Raise it: sudo sysctl fs.inotify.{limit}"
        name = os.path.relpath(folder, self._root)
        self._warn(SvcError(f"cannot watch {name}{others}: {reason}; svc looks there twice a second", hint))

    async def _poll(self) -> None:
        """Compare the folders that are not watched with what they were, and try again to watch them."""
        spent = 0.0
        while self._polled:
            await asyncio.sleep(max(POLL_SECONDS, 5 * spent))
            began, before = time.monotonic(), dict(self._polled)
            for folder in before:
                self._watch(folder)
            after = await asyncio.to_thread(lambda folders: {each: _stamps(each) for each in folders}, before)
            for folder, stamps in after.items():
                if folder in self._polled:
                    self._polled[folder] = stamps
                for path, _ in before[folder].items() ^ stamps.items():
                    self._report({path} | (self._add(path) if path not in before[folder] else set()))
            spent = time.monotonic() - began


def _lacks_content(path: Path) -> bool:
    """Return whether a file is empty. A missing `.env` counts: some editors rename it before they write."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return path.name == ENV_FILE


def _stamps(folder: Path) -> _Stamps:
    """Return what changes with each entry of a folder; nothing for a folder that cannot be read."""
    stamps: _Stamps = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            written = (status.st_mtime_ns, status.st_size) if not entry.is_dir() else ()
            stamps[folder / entry.name] = (status.st_ino, status.st_mode, *written)
    return stamps


class SourceListener:
    """Rebuilds the resources whose files changed, and applies an edited manifest."""

    def __init__(
        self,
        dev: DevProject,
        ignored: IgnoreRules,
        load: Callable[[Path], Project],
        on_invalid: Callable[[SvcError], None],
        on_notice: Callable[[str], None],
    ) -> None:
        """`load` reads the manifest. Its errors go to `on_invalid`, and the old manifest stays in force."""
        self._dev = dev
        self._load = load
        self._on_invalid = on_invalid
        self._on_notice = on_notice
        self._root = dev.project.root
        self._ignored = ignored
        self._build_writes: dict[str, BuildWriteFilter] = {}
        self._invalid = False

    async def __call__(self, paths: set[Path]) -> None:
        manifest = self._root / MANIFEST
        if manifest in paths or self._root in paths:
            await self._reload()
        if self._root / ENV_FILE in paths or self._root in paths:
            try:
                if changed := await self._dev.read_secrets():
                    self._on_notice(f"read {ENV_FILE} again: changed {', '.join(changed)}")
            except SvcError as error:
                self._on_invalid(error)
                self._on_notice(f"still using the values of {ENV_FILE} before")
        if names := self._to_build(paths - {manifest}):
            self._dev.rebuild(names)

    def _to_build(self, changed: set[Path]) -> set[str]:
        names = set()
        for name, paths in resources_for(self._dev, changed, self._ignored).items():
            if self._dev.project.resources[name].build is not None:
                build_writes = self._build_writes.setdefault(name, BuildWriteFilter())
                paths, build_outputs = build_writes.split(paths, self._dev.build_interval(name))
                for path in sorted(build_outputs):
                    self._on_notice(
                        f"{path.relative_to(self._root)} is written by the build of {name}: its changes no "
                        "longer start a build. Add it to .gitignore to ignore it from the start."
                    )
            if paths:
                names.add(name)
        return names

    async def _reload(self) -> None:
        try:
            project = self._load(self._root)
        except SvcError as error:
            self._invalid = True
            self._on_invalid(error)
            self._on_notice(f"still serving the last valid {MANIFEST}")
            return
        changes = _changes(self._dev.project, project)
        if self._invalid or changes:
            again = "again; it is valid now" if self._invalid else "again"
            self._on_notice(f"read {MANIFEST} {again}: {changes or 'nothing changed'}")
        self._invalid = False
        if changes:
            await self._dev.apply(project)


def _changes(before: Project, after: Project) -> str:
    """Return the differences of two manifests in words; empty if there are none."""
    old, new = before.resources, after.resources
    changed = [name for name, resource in new.items() if old.get(name, resource) != resource]
    if replace(before, resources=new) != after:
        changed.insert(0, "[project]")
    names = {"added": new.keys() - old.keys(), "removed": old.keys() - new.keys(), "changed": changed}
    return "; ".join(f"{verb} {', '.join(sorted(each))}" for verb, each in names.items() if each)


def _is_own_output(path: Path) -> bool:
    """Return whether stdout or stderr of this process is redirected to a file, as by `svc dev > dev.log`."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return True
    return False


def resources_for(dev: DevProject, paths: set[Path], ignored: IgnoreRules) -> dict[str, set[Path]]:
    """Return the names of the resources that changed files belong to, each with its files.

    A file belongs to every resource that was built from it. Unless it is ignored, it also belongs to the
    resource with the deepest `workdir` around it, if it is not build output of that resource.
    """
    paths_by_name: dict[str, set[Path]] = {}
    resources = dev.project.resources.values()
    for path in paths:
        names = {r.name for r in resources if path in dev.inputs(r.name)}
        # A pattern such as `build/` is for folders, also for those that were removed.
        folder = ignored.folder(path) and not path.is_file()
        if not folder and not ignored(path) and not _is_own_output(path):
            around = [r for r in resources if path.is_relative_to(r.workdir) and not r.files]
            depth = max((len(r.workdir.parts) for r in around), default=0)
            for resource in (each for each in around if len(each.workdir.parts) == depth):
                output = resource.output if resource.build is not None else None
                if output is None or not path.is_relative_to(output):
                    names.add(resource.name)
        for name in names:
            paths_by_name.setdefault(name, set()).add(path)
    return paths_by_name
