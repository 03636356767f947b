"""Concurrent builds of a project's resources, as a deploy makes them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from engine.artifact import Artifact
from engine.build.builder import Builder
from engine.manifest.model import Project, Resource
from svc_tui.composition import lanes

T = TypeVar("T")


@asynccontextmanager
async def build_each(
    project: Project, cache: Path, build: Callable[[Builder, Resource], Coroutine[Any, Any, T]]
) -> AsyncIterator["list[asyncio.Task[T]]"]:
    """Run `build` for every resource, one per processor at a time, and yield the tasks in manifest order.

    Leaving the context cancels unfinished builds.
    """
    available = lanes()
    builder = Builder(available, cache, "deploy", os.environ)
    slots = asyncio.Semaphore(os.cpu_count() or 1)

    async def build_one(resource: Resource) -> T:
        if earlier := [tasks[name] for name in project.built_before(resource.name)]:
            await asyncio.wait(earlier)
        async with slots:
            return await build(builder, resource)

    tasks = {name: asyncio.create_task(build_one(each)) for name, each in project.resources.items()}
    try:
        yield list(tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        await asyncio.gather(*(lane.aclose() for lane in available.values()))


async def build_resource(
    builder: Builder, resource: Resource, root: Path, report: Callable[[str], None], *, cached: bool = True
) -> tuple[Artifact, bool]:
    """Return the artifact of a resource, and whether it is that of an earlier build. Raises `SvcError`.

    `report` receives lines of progress. Without `cached`, an unchanged resource is built again.
    """
    # The command of a resource with a fallback also writes that one's sources, so it always runs.
    cached = cached and not (resource.build and resource.fallback)
    if cached and (artifact := await builder.remembered(resource, root)) is not None:
        return artifact, True
    prefix = f"{resource.name}: "
    return await builder.build(
        resource, root, lambda line: report(line.removeprefix(prefix)), remember=True
    ), False
