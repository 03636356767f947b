"""`svc build`."""

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from engine.artifact import ComponentArtifact, StaticBundle
from engine.build.builder import Builder
from engine.errors import SvcError
from engine.manifest.load import find, load
from engine.manifest.model import Project, Resource
from svc_tui.deploy.build import build_each, build_resource
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
    """Build all resources and print the results in manifest order; return the errors."""
    failures = []

    async def build(builder: Builder, resource: Resource) -> Text:
        return await _build(builder, project, resource, cache, cached=cached)

    async with build_each(project, cache, build) as builds:
        for running in builds:
            try:
                stdout.line(await running)
            except SvcError as error:
                failures.append(error)
    return failures


async def _build(
    builder: Builder, project: Project, resource: Resource, cache: Path, *, cached: bool
) -> Text:
    started = time.perf_counter()

    def report(line: str) -> None:
        stderr.progress(f"{resource.name}: {line}")

    artifact, unchanged = await build_resource(builder, resource, project.root, report, cached=cached)
    if isinstance(artifact, ComponentArtifact):
        # Imported on demand: it imports all host functions.
        from engine.wasm.compile.check import error_context
        from engine.wasm.compile.code_cache import compile_component

        with error_context(resource.name):
            await compile_component(artifact.component, artifact.digest, cache, fast=False, report=report)
    digest = artifact.digest if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
    took = duration(int((time.perf_counter() - started) * 1e9))
    return Text.assemble(
        (f"{resource.name:<12}", "cyan"),
        f"{resource.lane:<8}sha256:{digest}  ",
        (f"{took}, unchanged" if unchanged else took, "dim"),
    )
