"""File watcher of a project, and the listener that rebuilds resources or applies the manifest."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from watchfiles import awatch

from engine.build.ignore import IgnoreRules
from engine.dev.build_writes import BuildWriteFilter
from engine.dev.project import DevProject
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.model import Project, Resource

STEP_MS = 3
"""Pause that ends a burst of changes."""

FileListener = Callable[[set[Path]], Awaitable[None]]


class Watcher:
    """Watches one folder and publishes each batch of changed paths to its subscribers, in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listeners: list[FileListener] = []
        self.ready = asyncio.Event()
        """Set once the watch has begun: later changes are not missed."""

    def subscribe(self, listener: FileListener) -> None:
        """Call `listener` with each batch of changed paths."""
        self._listeners.append(listener)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Start this before the first build."""
        batches = awatch(
            self._root,
            watch_filter=None,
            step=STEP_MS,
            debounce=10 * STEP_MS,
            stop_event=stop,
            rust_timeout=500,
            recursive=True,
            ignore_permission_denied=True,
        )
        # The watch begins with the first call of the iterator, before that first waits.
        asyncio.get_running_loop().call_soon(self.ready.set)
        async for batch in batches:
            paths = {Path(path) for _, path in batch}
            for listener in self._listeners:
                await listener(paths)


class SourceListener:
    """Rebuilds the resources whose files changed, and applies an edited manifest."""

    def __init__(
        self,
        dev: DevProject,
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
        self._ignored = IgnoreRules(self._root)
        self._build_writes: dict[str, BuildWriteFilter] = {}
        self._invalid = False

    async def __call__(self, paths: set[Path]) -> None:
        """Handle a batch of changed paths."""
        manifest = self._root / MANIFEST
        if self._root / ".gitignore" in paths:
            self._ignored = IgnoreRules(self._root)
        if manifest in paths:
            await self._reload()
        others = paths - {manifest}
        sources = {path for path in others if not self._ignored(path) and not _is_own_output(path)}
        if names := self._to_build(sources):
            self._dev.rebuild(names)

    def _to_build(self, sources: set[Path]) -> set[str]:
        names = set()
        for name, paths in resources_for(self._dev, sources).items():
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
            return
        if self._invalid:
            self._invalid = False
            self._on_notice(f"{MANIFEST} is valid again")
        if project != self._dev.project:
            await self._dev.apply(project)


def _is_own_output(path: Path) -> bool:
    """Return whether stdout or stderr of this process is redirected to a file, as by `svc dev > dev.log`."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return True
    return False


def resources_for(dev: DevProject, paths: set[Path]) -> dict[str, set[Path]]:
    """Return the names of the resources that changed files belong to, each with its files.

    A file belongs to the resource with the deepest `workdir` around it, unless it is build output of that
    resource. It also belongs to every resource that was built from it.
    """
    paths_by_name: dict[str, set[Path]] = {}
    resources = dev.project.resources.values()
    for path in paths:
        around = [r for r in resources if path.is_relative_to(r.workdir)]
        depth = max((len(r.workdir.parts) for r in around), default=0)
        names = {r.name for r in around if len(r.workdir.parts) == depth and not _is_output(r, path)}
        for name in names | {r.name for r in resources if path in dev.inputs(r.name)}:
            paths_by_name.setdefault(name, set()).add(path)
    return paths_by_name


def _is_output(resource: Resource, path: Path) -> bool:
    return resource.build is not None and resource.output is not None and path.is_relative_to(resource.output)
