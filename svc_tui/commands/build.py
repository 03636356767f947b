"""`svc build`: what the first step of a deploy does."""

import asyncio
import os
import time
from pathlib import Path

from rich.text import Text

from engine.artifact import Artifact, ComponentArtifact, ImageArtifact
from engine.errors import SvcError
from engine.lane import BuildRequest, Lane
from engine.manifest.load import find, load
from engine.manifest.model import Project, Resource
from engine.wasm.compile import compile_component
from svc_tui.assembly import lanes
from svc_tui.devlog import duration
from svc_tui.home import Home
from svc_tui.terminal import diagnostics, output


def build() -> None:
    """Build every Resource as a deploy does and print each artifact's sha256."""
    project = load(find(Path.cwd()))
    cache = Home.from_environment(os.environ).cache()
    failures = asyncio.run(_build_all(project, cache))
    for failure in failures[:-1]:
        diagnostics.render(failure)
    if failures:
        raise failures[-1]


async def _build_all(project: Project, cache: Path) -> list[SvcError]:
    parts = lanes()
    failures = []
    try:
        for resource in project.resources.values():
            began = time.perf_counter()
            try:
                artifact = await _build(parts, project, resource, cache)
            except SvcError as error:
                failures.append(error)
                continue
            output.line(_summary(resource, artifact, time.perf_counter() - began))
    finally:
        await asyncio.gather(*(lane.aclose() for lane in parts.values()))
    return failures


async def _build(parts: dict[str, Lane], project: Project, resource: Resource, cache: Path) -> Artifact:
    lane = parts.get(resource.lane)
    if lane is None:
        raise SvcError(
            f"Resource {resource.name}: the {resource.lane} lane is not part of this version of svc",
            f"Use one of: {', '.join(parts)}.",
        )
    artifact = await lane.build(BuildRequest(resource, project.root, cache, "deploy", diagnostics.progress))
    if isinstance(artifact, ComponentArtifact):
        await compile_component(
            artifact.component, artifact.digest, cache, fast=False, report=diagnostics.progress
        )
    return artifact


def _summary(resource: Resource, artifact: Artifact, seconds: float) -> Text:
    digest = artifact.digest if isinstance(artifact, ComponentArtifact | ImageArtifact) else ""
    return Text.assemble(
        (f"{resource.name:<12}", "cyan"),
        f"{resource.lane:<8}sha256:{digest}  ",
        (duration(int(seconds * 1e9)), "dim"),
    )
