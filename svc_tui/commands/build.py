"""`svc build`."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
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
    results: list[dict[str, Any]] = []

    def show(built: dict[str, Any]) -> None:
        seconds = built["seconds"]
        results.append({**built, "seconds": round(seconds, 3)})
        if not as_json:
            name, time = f"{built['resource']:<12}", duration(int(seconds * 1e9))
            time += ", unchanged" * built["unchanged"]
            digest = f"{built['lane']:<8}sha256:{built['sha256']}  "
            stdout.line(Text.assemble((name, "cyan"), digest, (time, "dim")))

    failures = asyncio.run(_build_all(project, cache, files, show, cached=not no_cache))
    if as_json:
        stdout.data({"ok": not failures, "resources": results})
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
            hint = f"Use one of: {names}" if names else "Static resources have none."
            raise InvalidUsage(f"--component {text} names no component of the project", hint)
        if resource in files:
            raise InvalidUsage(f"--component names {resource} twice", "Pass one file for each resource.")
        if os.path.realpath(file) in map(os.path.realpath, files.values()):
            raise InvalidUsage(f"--component names {file} twice", "Pass a file of its own for each resource.")
        path = Path(file)
        with suppress(OSError):  # Writing reports it.
            if path.exists() and not path.is_file():
                hint = "Choose another path."
                raise InvalidUsage(f"--component {text}: {file} is not a regular file", hint)
            if not Path(os.path.realpath(file)).parent.is_dir():
                hint = "Create it, or choose another."
                raise InvalidUsage(f"--component {text}: the folder of {file} does not exist", hint)
        files[resource] = path
    return files


async def _build_all(
    project: Project,
    cache: Path,
    files: Mapping[str, Path],
    show: Callable[[dict[str, Any]], None],
    *,
    cached: bool,
) -> list[SvcError]:
    """Build all resources and show the results in manifest order; return the errors."""
    failures = []

    async def build(builder: Builder, resource: Resource) -> dict[str, Any]:
        name, started = resource.name, time.perf_counter()

        def report(line: str) -> None:
            stderr.progress(f"{name}: {line}")

        artifact, unchanged = await build_resource(builder, resource, project.root, report, cached=cached)
        if isinstance(artifact, ComponentArtifact):
            component, digest = artifact.component, artifact.digest
            with error_context(name):
                await compile_component(component, digest, cache, fast=False, report=report, verify=False)
                if name in files:
                    write_export(files[name], [read_component(component, digest)])
        digest = artifact.digest if isinstance(artifact, ComponentArtifact | StaticBundle) else ""
        seconds = time.perf_counter() - started
        built = {"resource": name, "lane": resource.lane, "sha256": digest, "seconds": seconds}
        return {**built, "unchanged": unchanged}

    async with build_each(project, cache, build) as builds:
        for running in builds:
            try:
                show(await running)
            except SvcError as error:
                failures.append(error)
    return failures
