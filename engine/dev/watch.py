"""The dev loop: files that change -> Resources to build, or a manifest to apply.

Owns what is watched; what is ignored is `ignore.py`'s. Building and routing are `engine/dev/project.py`'s.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from watchfiles import Change, awatch

from engine.build.ignore import Ignore
from engine.dev.build_writes import OwnWrites
from engine.dev.project import LiveProject
from engine.errors import SvcError
from engine.manifest.model import Project, Resource

MANIFEST = "svc.toml"
STEP_MS = 5
"""How long a burst of changes must pause before it is acted on."""


def affected(live: LiveProject, paths: set[Path]) -> dict[str, set[Path]]:
    """Return the Resources that files which changed belong to, each with its files.

    A file belongs to the Resource with the deepest `workdir` around it, unless it lies in what a build
    command of that Resource wrote; and to every Resource that was built from it.
    """
    found: dict[str, set[Path]] = {}
    resources = live.project.resources.values()
    for path in paths:
        around = [r for r in resources if path.is_relative_to(r.workdir)]
        depth = max((len(r.workdir.parts) for r in around), default=0)
        names = {r.name for r in around if len(r.workdir.parts) == depth and not _written(r, path)}
        for name in names | {r.name for r in resources if path in live.inputs(r.name)}:
            found.setdefault(name, set()).add(path)
    return found


def _written(resource: Resource, path: Path) -> bool:
    return resource.build is not None and resource.output is not None and path.is_relative_to(resource.output)


class Watcher:
    """Watches one Project folder."""

    def __init__(
        self,
        live: LiveProject,
        load: Callable[[Path], Project],
        refused: Callable[[SvcError], None],
        noticed: Callable[[str], None],
    ) -> None:
        """`load` reads a manifest; `refused` hears of one that is not valid, while the old one stays.

        `noticed` takes a line that is worth knowing.
        """
        self._live = live
        self._load = load
        self._refused = refused
        self._noticed = noticed
        self._root = live.project.root
        self._ignore = Ignore(self._root)
        self._own_writes: dict[str, OwnWrites] = {}
        self.ready = asyncio.Event()
        """Set when changes are seen: what is saved from then on is not missed."""

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Start this before the first build."""
        async for paths in self._changes(stop):
            if self._root / ".gitignore" in paths:
                self._ignore = Ignore(self._root)
            if self._root / MANIFEST in paths:
                await self._reload()
            sources = {path for path in paths if path != self._root / MANIFEST and not self._ignore(path)}
            if names := self._to_build(sources):
                self._live.rebuild(names)

    async def _changes(self, stop: asyncio.Event) -> AsyncIterator[set[Path]]:
        changes = awatch(
            self._root,
            watch_filter=_any,
            step=STEP_MS,
            debounce=10 * STEP_MS,
            stop_event=stop,
            rust_timeout=500,
            recursive=True,
            ignore_permission_denied=True,
        )
        # The watch begins when the iterator is first asked, before it first waits.
        asyncio.get_running_loop().call_soon(self.ready.set)
        async for batch in changes:
            yield {Path(path) for _, path in batch}

    def _to_build(self, sources: set[Path]) -> set[str]:
        names = set()
        for name, paths in affected(self._live, sources).items():
            if self._live.project.resources[name].build is not None:
                own = self._own_writes.setdefault(name, OwnWrites())
                paths, found = own.saves(paths, self._live.windows.get(name))
                for path in sorted(found):
                    self._noticed(
                        f"{path.relative_to(self._root)} is written by the build of {name}: its changes no "
                        "longer start one. Name it in .gitignore to have it ignored from the start."
                    )
            if paths:
                names.add(name)
        return names

    async def _reload(self) -> None:
        try:
            project = self._load(self._root)
        except SvcError as error:
            self._refused(error)
            return
        if project != self._live.project:
            await self._live.apply(project)


def _any(_change: Change, _path: str) -> bool:
    return True
