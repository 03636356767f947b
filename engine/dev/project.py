"""A project in development: builds its resources and publishes each outcome.

The old version of a resource serves until the new one is ready, and continues to serve if the new one does
not build. Requests wait for the build of a save for a while. When nothing is left to build, snapshots of
artifacts that evaluate a script at each request are made in the background; a save cancels that.
`engine/dev/watch.py` watches the files; `engine/deploy/serving.py` serves.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.artifact import Artifact, ComponentArtifact, FolderArtifact
from engine.build.builder import Builder
from engine.deploy.serving import BuildResult, BuildStatus, Publication, ResourceStatus, ServingTable
from engine.errors import SvcError
from engine.lane import BuildFailed, BuildMode, Lane, ignore_progress
from engine.manifest.model import Project, Resource, build_settings
from engine.wasm.compile.code_cache import compile_component, remove_code

BUILDS_IN_A_ROW = 3
"""Number of successive builds during which a file must change to count as written by them."""
LOCK_FILES = frozenset(("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"))
"""Files that package managers write when a build installs packages."""


@dataclass(frozen=True, slots=True)
class BuildInterval:
    """The latest build of a resource: its number and its times (Unix epoch, ns; no end while it runs)."""

    number: int
    start_ns: int
    end_ns: int | None = None

    def contains(self, time_ns: int) -> bool:
        return self.start_ns <= time_ns and (self.end_ns is None or time_ns <= self.end_ns)


class BuildWriteFilter:
    """Separates saves of the user from files that the build of one resource writes outside of its output.

    A file that changes during each of several builds in a row is written by the build, and no longer starts
    one. Otherwise a command that writes a stamp beside its sources would run forever. Lock files of package
    managers that change during a build never start one. A change while no build runs is the user's.
    """

    def __init__(self) -> None:
        self._streaks: dict[Path, tuple[int, int]] = {}

    def split(self, paths: set[Path], interval: BuildInterval | None) -> tuple[set[Path], set[Path]]:
        """Split changed files into those that start a build, and those newly found to be the build's own."""
        saves, build_outputs = set(), set()
        for path in paths:
            if interval is None or not interval.contains(_changed_ns(path)):
                self._streaks.pop(path, None)
                saves.add(path)
                continue
            if path.name in LOCK_FILES:
                continue
            last, length = self._streaks.get(path, (0, 0))
            if last != interval.number:
                length = length + 1 if last == interval.number - 1 else 1
                self._streaks[path] = (interval.number, length)
                if length == BUILDS_IN_A_ROW:
                    build_outputs.add(path)
            if length < BUILDS_IN_A_ROW:
                saves.add(path)
        return saves, build_outputs


def _changed_ns(path: Path) -> int:
    """Return when a file last changed; the current time if it is gone."""
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return time.time_ns()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFinished:
    """A finished build. `error` is `None` if the new version serves; `rebuild` is false for the first one.

    `recovered` means that the build before failed, `from_folder` that files are served from disk as they are.
    """

    resource: str
    seconds: float
    error: SvcError | None
    rebuild: bool
    recovered: bool = False
    from_folder: bool = False


def _is_artifact(part: BuildResult) -> bool:
    return part is not None and not isinstance(part, SvcError)


async def _unless_canceled(build: asyncio.Task[Artifact]) -> Artifact | None:
    """Return the artifact of a build, `None` if only the build was canceled and not its caller."""
    try:
        return await build
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
        return None


class DevProject:
    """One project in development. Call `start` before anything else."""

    def __init__(
        self,
        project: Project,
        table: ServingTable,
        *,
        lanes: Mapping[str, Lane],
        cache: Path,
        mode: BuildMode,
        environ: Mapping[str, str],
        secrets: Callable[[], Mapping[str, str]],
        report: Callable[[str], None],
        on_built: Callable[[BuildFinished], None],
        forward: Callable[[Publication], Awaitable[None]] | None = None,
    ) -> None:
        """`secrets` returns the values for secrets, and raises `SvcError` if they cannot be read.

        `report` receives lines of progress, `on_built` each finished build. `forward` publishes to the worker
        processes too and returns when they serve.
        """
        self.project = project
        self._table, self._cache, self._read_secrets = table, cache, secrets
        self._report, self._on_built, self._forward = report, on_built, forward
        self._builder = Builder(lanes, cache, mode, environ)
        self._parts: dict[str, BuildResult] = dict.fromkeys(project.resources)
        self._publishing = asyncio.Lock()
        self._intervals: dict[str, BuildInterval] = {}
        self._dirty: set[str] = set()
        self._running: dict[str, asyncio.Task[Artifact]] = {}
        self._last: dict[str, BuildFinished] = {}
        self._saved: set[str] = set()
        """Resources whose parts are older than their files."""
        self.secrets = secrets()
        """Values for secrets, and other variables."""
        self._snapshots: asyncio.Task[None] | None = None
        self._compilation: asyncio.Task[Any] | None = None
        self._snapshot_files: list[ComponentArtifact] = []
        """Snapshots on disk."""
        self._reported: set[str] = set()
        self._first_result: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # A deploy build takes a processor and up to a gigabyte; a dev build takes next to nothing.
        self._slots = asyncio.Semaphore(os.cpu_count() or 1) if mode == "deploy" else None
        self._jobs: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Publish the project without any build: requests wait for the first ones."""
        await self._publish()

    def _publication(self, changes: Mapping[str, BuildResult]) -> Publication:
        secrets = {name: self.secrets[name] for name in self.project.secrets & self.secrets.keys()}
        saved = self._saved - (changes.keys() - self._dirty)
        outdated = frozenset(saved & self.project.resources.keys())
        return Publication(self.project, {**self._parts, **changes}, secrets=secrets, outdated=outdated)

    def _outdated(self, resource: Resource) -> bool:
        """Return whether the manifest has changed so that this resource is built differently now."""
        current = self.project.resources.get(resource.name)
        return current is None or build_settings(current) != build_settings(resource)

    async def _publish(
        self, resource: Resource | None = None, part: BuildResult = None, *, lenient: bool = False
    ) -> None:
        """Serve the project, with a new part for `resource` unless that is outdated by then.

        Raises `SvcError` if a component cannot run; the old version then continues to serve.
        """
        changes = {} if resource is None else {resource.name: part}
        # Components compile outside of the lock, several at a time.
        prepared = await self._table.prepare(self._publication(changes), lenient=lenient)
        async with self._publishing:
            if resource is not None and not self._outdated(resource):
                self._parts |= changes
                self._saved -= changes.keys() - self._dirty
            publication = self._publication({})
            if prepared.publication != publication:
                prepared = await self._table.prepare(publication, lenient=True)
            self._table.activate(prepared)
            if self._forward is not None:
                await self._forward(publication)

    def _entry_may_miss(self, name: str) -> bool:
        """Return whether the build that writes the entry of a fallback failed. The next one writes it."""
        lasts = (self._last.get(each) for each in self.project.built_before(name))
        return any(last is not None and last.error is not None for last in lasts)

    def inputs(self, name: str) -> frozenset[Path]:
        """Return the files that a resource was built from or failed at, as far as its lane reports them."""
        artifact, last = self._parts.get(name), self._last.get(name)
        inputs = artifact.inputs if isinstance(artifact, ComponentArtifact) else frozenset()
        if last is not None and isinstance(last.error, BuildFailed):
            inputs |= {self.project.root / each.file for each in last.error.diagnostics if each.file}
        return inputs

    def build_interval(self, name: str) -> BuildInterval | None:
        return self._intervals.get(name)

    def status(self, name: str) -> ResourceStatus:
        """Return the status of a resource."""
        last = self._last.get(name)
        builds = BuildStatus(
            queued=name in self._jobs or last is None,
            running=name in self._running,
            error=last.error if last is not None else None,
            seconds=last.seconds if last is not None else None,
        )
        return self._table.status(self.project.name, name, builds)

    def rebuild(self, names: set[str]) -> None:
        """Start to build these resources. Builds in progress are repeated afterwards."""
        for name in names & self.project.resources.keys():
            if self._snapshots is not None:
                self._snapshots.cancel()
            if self._parts.get(name) is not None:
                self._saved.add(name)
            self._dirty.add(name)
            if name not in self._jobs:
                self._jobs[name] = asyncio.get_running_loop().create_task(self._work(name))

    async def ready(self) -> None:
        """Wait until the first build of each resource has finished or failed."""
        for name in self.project.resources:
            await self._first_result[name].wait()

    async def built(self) -> bool:
        """Wait until no build runs. Return whether all resources were built."""
        while self._jobs:
            await asyncio.wait(self._jobs.values())
        return all(last.error is None for last in self._last.values())

    async def apply(self, project: Project) -> None:
        """Switch to an edited manifest: build the resources it changes, update all routes at once.

        Running builds with the old settings are canceled.
        """
        before, self.project = self.project, project
        stale = set()
        removed = before.resources.keys() - project.resources.keys()
        for name in removed:
            self._parts.pop(name, None)
            self._last.pop(name, None)
        for name, resource in project.resources.items():
            old = before.resources.get(name)
            if old is None or build_settings(old) != build_settings(resource):
                stale.add(name)
                if old is None or old.lane != resource.lane:
                    self._parts[name] = None
        await self._publish(lenient=True)
        self.rebuild(stale)
        for name in (stale | removed) & self._running.keys():
            self._running[name].cancel()

    async def read_secrets(self) -> list[str]:
        """Read the values for secrets again; return the names of those that changed. Raises `SvcError`."""
        before, self.secrets = self.secrets, self._read_secrets()
        names = [name for name in self.project.secrets if before.get(name) != self.secrets.get(name)]
        if names:
            await self._publish(lenient=True)
        return sorted(names)

    async def _work(self, name: str) -> None:
        try:
            while name in self._dirty:
                before = self.project.built_before(name)
                if earlier := [self._jobs[each] for each in before if each in self._jobs]:
                    await asyncio.wait(earlier)
                self._dirty.discard(name)
                if _is_artifact(self._parts.get(name)) and self._entry_may_miss(name):
                    self._saved.discard(name)
                    await self._publish(lenient=True)
                    continue
                number = self._intervals[name].number + 1 if name in self._intervals else 1
                interval = self._intervals[name] = BuildInterval(number, time.time_ns())
                if name in self._saved:
                    await self._publish(lenient=True)
                await self._build(name)
                self._intervals[name] = replace(interval, end_ns=time.time_ns())
                if name in self._saved - self._dirty:
                    self._saved.discard(name)
                    await self._publish(lenient=True)
        finally:
            del self._jobs[name]
            self._first_result[name].set()
        if not self._jobs:
            self._snapshots = asyncio.get_running_loop().create_task(self._make_snapshots())

    async def _make_snapshots(self) -> None:
        """Serve snapshots instead of the artifacts that have a script."""
        if self._compilation is not None:
            await asyncio.wait([self._compilation])
            self._compilation.exception()  # It concerns a snapshot that a save made obsolete.
        await self._remove_snapshots(list(self._parts.values()))
        for name, loader in list(self._parts.items()):
            if not isinstance(loader, ComponentArtifact) or loader.script is None or loader.snapshot:
                continue
            resource = self.project.resources.get(name)
            if resource is None or self._entry_may_miss(name):
                continue
            try:
                artifact = await self._builder.snapshot(
                    resource, self.project.root, self._report_once, loader
                )
                assert artifact.snapshot is not None
                self._snapshot_files.append(artifact.snapshot)
                # To the end even if a save cancels this: later ones share most of the code.
                self._compilation = asyncio.create_task(
                    compile_component(
                        artifact.snapshot.component,
                        artifact.snapshot.digest,
                        self._cache,
                        fast=False,
                        report=ignore_progress,
                    )
                )
                await asyncio.shield(self._compilation)
                await self._publish(resource, artifact)
            except SvcError as error:
                effect = "each request evaluates its bundle, and a deploy would fail"
                self._report_once(f"{name} has no snapshot, so {effect}: {error.message}")

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)

    async def _remove_snapshots(self, parts: Iterable[BuildResult] = ()) -> None:
        """Remove the files of snapshots that are not of these parts."""
        snapshots = [part.snapshot for part in parts if isinstance(part, ComponentArtifact)]
        served = {snapshot.digest for snapshot in snapshots if snapshot is not None}

        def remove(snapshot: ComponentArtifact) -> None:
            snapshot.component.unlink(missing_ok=True)
            remove_code(self._cache, snapshot.digest)

        for snapshot in [each for each in self._snapshot_files if each.digest not in served]:
            self._snapshot_files.remove(snapshot)
            await asyncio.to_thread(remove, snapshot)

    async def _build(self, name: str) -> None:
        """Build a resource; the first time, publish the remembered artifact of an earlier `svc` at once."""
        resource = self.project.resources.get(name)
        if resource is None:
            return
        first = self._intervals[name].number == 1
        if first:
            # The build below runs all the same: it warms up the tools and corrects a wrong memory.
            remembered = partial(self._builder.remembered, resource, self.project.root)
            await self._replace(resource, remembered, quiet=True)
        async with self._slots or nullcontext():
            # The manifest may have changed while the build waited.
            resource = self.project.resources.get(name, resource)
            build = self._builder.build(
                resource,
                self.project.root,
                self._report,
                remember=first,
                evaluate=partial(self._table.versions.evaluate, self.project.name, resource),
            )
            task = self._running[name] = asyncio.create_task(build)
            try:
                await self._replace(resource, partial(_unless_canceled, task))
            finally:
                del self._running[name]

    async def _replace(
        self, resource: Resource, build: Callable[[], Awaitable[Artifact | None]], *, quiet: bool = False
    ) -> None:
        """Publish the artifact that `build` returns, if it differs; with `quiet`, ignore errors."""
        name = resource.name
        start, rebuild = time.perf_counter(), _is_artifact(self._parts.get(name))
        error: SvcError | None = None
        changed = True
        try:
            artifact = await build()
            if artifact is None:
                return
            part = self._parts.get(name)
            before = replace(part, snapshot=None) if isinstance(part, ComponentArtifact) else part
            changed = artifact != before
            if changed:
                await self._publish(resource, artifact)
        except SvcError as failure:
            if quiet:
                return
            error = failure
            if not _is_artifact(self._parts.get(name)):
                await self._publish(resource, error)
        if self._outdated(resource):
            return
        last = self._last.get(name)
        self._last[name] = event = BuildFinished(
            resource=name,
            seconds=time.perf_counter() - start,
            error=error,
            rebuild=rebuild,
            recovered=error is None and last is not None and last.error is not None,
            from_folder=isinstance(self._parts.get(name), FolderArtifact),
        )
        self._first_result[name].set()
        if changed or event.recovered:
            self._on_built(event)

    async def aclose(self) -> None:
        """Cancel all builds, and remove the snapshots."""
        self._dirty.clear()
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        background = [task for task in (self._snapshots, self._compilation) if task is not None]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self._remove_snapshots()
