"""The dev loop: files that change -> Resources to build, or a manifest to apply.

Owns what is watched and what is ignored. Building and routing are `engine/deploy/live.py`'s.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path

from pathspec import GitIgnoreSpec
from watchfiles import Change, awatch

from engine.deploy.live import LiveProject
from engine.errors import SvcError
from engine.manifest.model import Project, Resource

MANIFEST = "svc.toml"
STEP_MS = 5
"""How long a burst of changes must pause before it is acted on."""
IGNORED = (
    *(".git/", ".hg/", ".svc/", ".venv/", "node_modules/", "target/", "__pycache__/"),
    *("*.swp", "*.swx", "*~", ".#*", "#*#", "4913", ".DS_Store", "*.tmp", "*.part"),
)


class Ignore:
    """What never starts a build: editors' and tools' own files, and what `.gitignore` names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        try:
            own = (root / ".gitignore").read_text(errors="replace").splitlines()
        except OSError:
            own = []
        self._spec = GitIgnoreSpec.from_lines([*IGNORED, *own])

    def __call__(self, path: Path) -> bool:
        """Whether this path, inside the Project folder, is ignored."""
        try:
            return self._spec.match_file(path.relative_to(self._root).as_posix())
        except ValueError:
            return False


def affected(live: LiveProject, paths: set[Path]) -> set[str]:
    """Return the Resources to build for files that changed.

    A file belongs to the Resource with the deepest `workdir` around it, unless it lies in what a build
    command of that Resource wrote; and to every Resource that was built from it.
    """
    names: set[str] = set()
    resources = live.project.resources.values()
    for path in paths:
        around = [r for r in resources if path.is_relative_to(r.workdir)]
        depth = max((len(r.workdir.parts) for r in around), default=0)
        names |= {r.name for r in around if len(r.workdir.parts) == depth and not _written(r, path)}
        names |= {r.name for r in resources if path in live.inputs(r.name)}
    return names


def _written(resource: Resource, path: Path) -> bool:
    return resource.build is not None and resource.output is not None and path.is_relative_to(resource.output)


def fingerprint(resource: Resource, ignore: Ignore) -> str:
    """Return a digest of a Resource's sources: what tells a save from a build command's own writes."""
    digest = sha256()
    for path in sorted(resource.workdir.rglob("*")):
        if path.is_file() and not ignore(path) and not _written(resource, path):
            try:
                content = path.read_bytes()
            except OSError:
                continue
            digest.update(f"{path}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


class Watcher:
    """Watches one Project folder."""

    def __init__(
        self, live: LiveProject, load: Callable[[Path], Project], refused: Callable[[SvcError], None]
    ) -> None:
        """`load` reads a manifest; `refused` hears of one that is not valid, while the old one stays."""
        self._live = live
        self._load = load
        self._refused = refused
        self._root = live.project.root
        self._ignore = Ignore(self._root)
        self._seen: dict[str, str] = {}
        self.ready = asyncio.Event()
        """Set when changes are seen: what is saved from then on is not missed."""

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set. Start this before the first build."""
        for resource in self._live.project.resources.values():
            if resource.build is not None:
                self._seen[resource.name] = fingerprint(resource, self._ignore)
        async for paths in self._changes(stop):
            if self._root / ".gitignore" in paths:
                self._ignore = Ignore(self._root)
            if self._root / MANIFEST in paths:
                await self._reload()
            sources = {path for path in paths if path != self._root / MANIFEST and not self._ignore(path)}
            names = {name for name in affected(self._live, sources) if self._changed(name)}
            if names:
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

    def _changed(self, name: str) -> bool:
        resource = self._live.project.resources[name]
        if resource.build is None:
            return True
        now = fingerprint(resource, self._ignore)
        changed = self._seen.get(name) != now
        self._seen[name] = now
        return changed

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
