"""`svc build`."""

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.build.builder import Builder
from engine.errors import SvcError
from engine.manifest.load import find, load
from engine.manifest.model import Project, Resource
from engine.wasm.compile.check import error_context
from engine.wasm.compile.compiler import compile_component
from svc_tui.composition import lanes
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import duration
from svc_tui.user_home import Home


def build(
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Rebuild unchanged resources too.")] = False,
) -> None:
    """Build every resource as a deploy does and print the sha256 of each artifact."""
    project = load(find(Path.cwd()))
    cache = Home.from_environment(os.environ).cache()
    failures = asyncio.run(_build_all(project, cache, cached=not no_cache))
    for failure in failures[:-1]:
        stderr.render(failure)
    if failures:
        raise failures[-1]


async def _build_all(project: Project, cache: Path, *, cached: bool) -> list[SvcError]:
    """Build one resource per processor concurrently; print the results in manifest order."""
    available = lanes()
    builder = Builder(available, cache, "deploy", os.environ)
    slots = asyncio.Semaphore(os.cpu_count() or 1)
    failures = []

    async def one(resource: Resource) -> Text:
        async with slots:
            return await _build(builder, project, resource, cache, cached=cached)

    jobs = [asyncio.ensure_future(one(resource)) for resource in project.resources.values()]
    try:
        for job in jobs:
            try:
                stdout.line(await job)
            except SvcError as error:
                failures.append(error)
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.gather(*(lane.aclose() for lane in available.values()))
    return failures


async def _build(
    builder: Builder, project: Project, resource: Resource, cache: Path, *, cached: bool
) -> Text:
    started = time.perf_counter()

    def report(line: str) -> None:
        stderr.progress(f"{resource.name}: {line.removeprefix(f'{resource.name}: ')}")

    artifact = await builder.remembered(resource, project.root) if cached else None
    unchanged = artifact is not None
    if artifact is None:
        artifact = await builder.build(resource, project.root, report, remember=True)
    if isinstance(artifact, ComponentArtifact):
        with error_context(resource.name):
            await compile_component(artifact.component, artifact.digest, cache, fast=False, report=report)
    took = duration(int((time.perf_counter() - started) * 1e9))
    return _summary(resource, artifact, f"{took}, unchanged" if unchanged else took)


def _summary(resource: Resource, artifact: Artifact, how: str) -> Text:
    digest = artifact.digest if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
    return Text.assemble(
        (f"{resource.name:<12}", "cyan"),
        f"{resource.lane:<8}sha256:{digest}  ",
        (how, "dim"),
    )
