"""A Project as it is being worked on: builds its Resources and keeps a RouteTable of what is ready.

Owns which version of each Resource serves. The old version serves until the new one is ready, and goes on
when the new one does not build. It watches no files (`engine/dev/watch.py` does) and prints nothing.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine.artifact import Artifact, ComponentArtifact
from engine.build.builder import Builder
from engine.deploy.doors import Doors
from engine.deploy.status import Standing, State
from engine.deploy.versions import Publication, Versions
from engine.dev.build_writes import Window
from engine.errors import SvcError
from engine.gateway.routes import NotReady, RouteTable, Version
from engine.lane import BuildMode, Lane
from engine.manifest.model import Project, Resource
from engine.wasm.execution.runner import Runner

UNBOUNDED = 1 << 16


@dataclass(frozen=True, slots=True)
class Built:
    """A build that ended. `error` is `None` when the new version serves; `again` tells a rebuild."""

    resource: str
    seconds: float
    error: SvcError | None
    again: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """What a LiveProject works with. `report` takes lines of progress, `built` each build that ended.

    `publish` has the Project served elsewhere too, as it is then; it returns when it is.
    """

    lanes: Mapping[str, Lane]
    runner: Runner
    cache: Path
    domain: str
    mode: BuildMode
    environ: Mapping[str, str]
    report: Callable[[str], None]
    built: Callable[[Built], None]
    doors: Doors
    publish: Callable[[Publication], Awaitable[None]] | None = None


def _build_inputs(resource: Resource) -> tuple[object, ...]:
    """Return what of a Resource's manifest its artifact depends on."""
    return resource.lane, resource.workdir, resource.build, resource.output, resource.entry


class LiveProject:
    """One Project in the hands of its developer."""

    def __init__(self, project: Project, setting: Setting) -> None:
        self.project = project
        self._setting = setting
        self._builder = Builder(setting.lanes, setting.cache, setting.mode, setting.environ)
        self._make = Versions(setting.runner, setting.mode, setting.report, lambda _: setting.doors)
        self._artifacts: dict[str, Artifact] = {}
        self._versions: dict[str, Version] = {name: NotReady(name, None) for name in project.resources}
        self.windows: dict[str, Window] = {}
        self._dirty: set[str] = set()
        self._begun: set[str] = set()
        self._building: set[str] = set()
        self._last: dict[str, Built] = {}
        self._answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        # A deploy build takes a processor and up to a gigabyte; a dev build takes next to nothing.
        self._free = asyncio.Semaphore(os.cpu_count() or 1 if setting.mode == "deploy" else UNBOUNDED)
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self.routes = self._table()

    def _table(self) -> RouteTable:
        return RouteTable.build(self.project, self._versions, domain=self._setting.domain)

    async def _publish(self) -> None:
        self.routes = self._table()
        if self._setting.publish is not None:
            await self._setting.publish(self._publication())

    def _publication(self) -> Publication:
        unbuilt = {name: v.error for name, v in self._versions.items() if isinstance(v, NotReady)}
        environ = self._setting.environ
        named = {name for resource in self.project.resources.values() for name in resource.secrets}
        secrets = {name: environ[name] for name in named & environ.keys()}
        return Publication(self.project, {**self._artifacts, **unbuilt}, secrets=secrets)

    def inputs(self, name: str) -> frozenset[Path]:
        """Return the files that the Resource was built from, as far as its lane tells them."""
        artifact = self._artifacts.get(name)
        return artifact.inputs if isinstance(artifact, ComponentArtifact) else frozenset()

    def standing(self, name: str) -> Standing:
        """Return how a Resource of the Project stands."""
        last, serves = self._last.get(name), name in self._artifacts
        error = last.error if last is not None else None
        if name in self._building:
            state: State = "building"
        elif name in self._jobs or last is None:
            state = "waiting"
        else:
            state = "ready" if error is None else "failed"
        return Standing(state, error, serves, last.seconds if last is not None else None)

    def rebuild(self, names: set[str]) -> None:
        """Start building these Resources; one that is being built is built once more after that."""
        for name in names & self.project.resources.keys():
            self._dirty.add(name)
            if name not in self._jobs:
                self._jobs[name] = asyncio.get_running_loop().create_task(self._work(name))

    async def ready(self) -> None:
        """Wait until each Resource serves or has failed to build for the first time."""
        for name in self.project.resources:
            await self._answered[name].wait()

    async def apply(self, project: Project) -> None:
        """Take over an edited manifest: build what it changes, route the rest anew at once."""
        before, self.project = self.project, project
        stale = set()
        for name in before.resources.keys() - project.resources.keys():
            for kept in (self._artifacts, self._versions, self._last):
                kept.pop(name, None)
        for name, resource in project.resources.items():
            old = before.resources.get(name)
            if old is None or _build_inputs(old) != _build_inputs(resource):
                stale.add(name)
                if old is None or old.lane != resource.lane:
                    self._versions[name] = NotReady(name, None)
            elif old != resource and name in self._artifacts:
                artifact = self._artifacts[name]
                self._versions[name] = await self._make.make(self._publication(), resource, artifact)
        await self._publish()
        self.rebuild(stale)

    async def _work(self, name: str) -> None:
        try:
            while name in self._dirty:
                self._dirty.discard(name)
                number = self.windows[name].number + 1 if name in self.windows else 1
                window = self.windows[name] = Window(number, time.time_ns())
                await self._build(name)
                self.windows[name] = replace(window, ended_ns=time.time_ns())
        finally:
            del self._jobs[name]
            self._answered[name].set()

    async def _build(self, name: str) -> None:
        """Build a Resource; the first time, serve at once what an earlier `svc` built of the same files."""
        resource = self.project.resources.get(name)
        if resource is None:
            return
        first = name not in self._begun
        self._begun.add(name)
        if first:
            # Built all the same, behind what serves then: the tools warm up, and a wrong memory is mended.
            await self._replace(
                resource, lambda: self._builder.known(resource, self.project.root), quiet=True
            )
        report = self._setting.report
        async with self._free:
            self._building.add(name)
            try:
                await self._replace(
                    resource, lambda: self._builder.build(resource, self.project.root, report, remember=first)
                )
            finally:
                self._building.discard(name)

    async def _replace(
        self, resource: Resource, make: Callable[[], Awaitable[Artifact | None]], *, quiet: bool = False
    ) -> None:
        """Let the artifact serve that `make` returns, if it is another one than now; `quiet` if it fails."""
        name = resource.name
        began, again = time.perf_counter(), name in self._artifacts
        error: SvcError | None = None
        try:
            artifact = await make()
            if artifact is None:
                return
            if artifact == self._artifacts.get(name):
                self._last[name] = Built(name, time.perf_counter() - began, None, again)
                return
            version = await self._make.make(self._publication(), resource, artifact)
        except SvcError as failure:
            if quiet:
                return
            error = failure
            if name in self.project.resources and name not in self._artifacts:
                self._versions[name] = NotReady(name, failure)
        else:
            if self.project.resources.get(name) != resource:
                self._dirty.add(name)
                return
            self._artifacts[name] = artifact
            self._versions[name] = version
        await self._publish()
        self._answered[name].set()
        self._last[name] = built = Built(name, time.perf_counter() - began, error, again)
        self._setting.built(built)

    async def aclose(self) -> None:
        """Stop building."""
        self._dirty.clear()
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
