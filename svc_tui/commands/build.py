"""`svc build`."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text

from engine.artifact import ComponentArtifact, StaticBundle
from engine.build.builder import Builder
from engine.errors import InvalidUsage, SvcError
from engine.manifest.load import find, load
from engine.manifest.model import Project, Resource
from engine.wasm.compile.code_cache import compile_component
from engine.wasm.compile.component_file import error_context, read_component
from svc_tui.atomic_export import write_export
from svc_tui.commands.options import AsJson, flag, option
from svc_tui.deploy.build import build_each, build_resource
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.units import duration
from svc_tui.user_home import Home


@dataclass(frozen=True, slots=True)
class _BuildResult:
    """A built resource; `digest` is the SHA-256 of its artifact."""

    resource: Resource
    digest: str
    seconds: float
    unchanged: bool

    def document(self) -> dict[str, Any]:
        return {
            "resource": self.resource.name,
            "lane": self.resource.lane,
            "sha256": self.digest,
            "seconds": round(self.seconds, 3),
            "unchanged": self.unchanged,
        }

    def line(self) -> Text:
        time = duration(int(self.seconds * 1e9))
        return Text.assemble(
            (f"{self.resource.name:<12}", "cyan"),
            f"{self.resource.lane:<8}sha256:{self.digest}  ",
            (f"{time}, unchanged" if self.unchanged else time, "dim"),
        )


def build(
    no_cache: Annotated[bool, flag("Rebuild unchanged resources too.", "--no-cache")] = False,
    component: Annotated[
        list[str] | None, option("[RESOURCE=]FILE", "Write a component to a file; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build every resource as a deploy does and print the sha256 of each artifact."""
    project = load(find(Path.cwd()))
    files = _targets(project, component or [])
    cache = Home.from_environment(os.environ).cache()
    results: list[_BuildResult] = []

    def show(result: _BuildResult) -> None:
        results.append(result)
        if not as_json:
            stdout.line(result.line())

    failures = asyncio.run(_build_all(project, cache, files, show, cached=not no_cache))
    if as_json:
        stdout.data({"ok": not failures, "resources": [result.document() for result in results]})
    for failure in failures[:-1]:
        stderr.render(failure)
    if failures:
        raise failures[-1]


def _targets(project: Project, texts: list[str]) -> dict[str, Path]:
    """Return the files of `--component` by resource. Raises `InvalidUsage`."""
    components = [each.name for each in project.resources.values() if each.lane != "static"]
    files: dict[str, Path] = {}
    for text in texts:
        resource, separator, file = text.partition("=")
        if not separator and len(components) == 1:
            resource, file = components[0], text
        if resource not in components or not file:
            shown = file or ("" if separator else text) or "FILE"
            names = ", ".join(f"--component {each}={shown}" for each in components)
            raise InvalidUsage(
                f"--component {text} names no component of the project",
                f"Use one of: {names}" if names else "Static resources have none.",
            )
        if resource in files:
            raise InvalidUsage(f"--component names {resource} twice", "Pass one file for each resource.")
        if os.path.realpath(file) in map(os.path.realpath, files.values()):
            raise InvalidUsage(f"--component names {file} twice", "Pass a file of its own for each resource.")
        path = Path(file)
        with suppress(OSError):  # Writing reports it.
            if path.exists() and not path.is_file():
                raise InvalidUsage(
                    f"--component {text}: {file} is not a regular file", "Choose another path."
                )
            if not Path(os.path.realpath(file)).parent.is_dir():
                raise InvalidUsage(
                    f"--component {text}: the folder of {file} does not exist",
                    "Create it, or choose another.",
                )
        files[resource] = path
    return files


async def _build_all(
    project: Project,
    cache: Path,
    files: Mapping[str, Path],
    show: Callable[[_BuildResult], None],
    *,
    cached: bool,
) -> list[SvcError]:
    """Build all resources and show the results in manifest order; return the errors."""
    failures = []

    async def build(builder: Builder, resource: Resource) -> _BuildResult:
        return await _build(builder, project, resource, cache, files.get(resource.name), cached=cached)

    async with build_each(project, cache, build) as builds:
        for running in builds:
            try:
                show(await running)
            except SvcError as error:
                failures.append(error)
    return failures


async def _build(
    builder: Builder, project: Project, resource: Resource, cache: Path, file: Path | None, *, cached: bool
) -> _BuildResult:
    started = time.perf_counter()

    def report(line: str) -> None:
        stderr.progress(f"{resource.name}: {line}")

    artifact, unchanged = await build_resource(builder, resource, project.root, report, cached=cached)
    if isinstance(artifact, ComponentArtifact):
        with error_context(resource.name):
            await compile_component(
                artifact.component, artifact.digest, cache, fast=False, report=report, verify=False
            )
            if file is not None:
                write_export(file, [read_component(artifact.component, artifact.digest)])
    digest = artifact.digest if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
    return _BuildResult(resource, digest, time.perf_counter() - started, unchanged)
