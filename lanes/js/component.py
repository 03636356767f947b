"""Components of bundled modules, cached: a template of componentize-js with the snapshot of a module.

The caller names the cache folder of a component after everything that shapes it. Writes are atomic and
locked.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path

from engine.files.sealed import content_digest
from engine.files.temporary import temporary_folder
from engine.lane import BuildFailed
from lanes.js.toolchain import GLUE, Toolchain
from lanes.process import locked, run

MODULES = {"service": "svc-app.js", "loader": "svc-loader.js"}
"""The name of a world's main module, which stack traces contain."""
GLUE_MODULE = "svc-glue.js"
"""The name of the glue in stack traces, and in a template of the world "service"."""
LIMIT_SECONDS = 120.0
"""Time limit for loading a module."""


class ComponentRefused(Exception):
    """The module cannot be made a component; `output` is the output of the tool and the module."""

    def __init__(self, output: str, *, timed_out: bool = False) -> None:
        super().__init__(output)
        self.output = output
        self.timed_out = timed_out


def cached_component(folder: Path) -> Path | None:
    """Return the component cached in a folder; its name is its sha256 (hex). A corrupt one does not count."""
    return next((each for each in folder.glob("*.wasm") if _is_whole(each, each.stat().st_mtime_ns)), None)


@cache
def _is_whole(component: Path, _modified_ns: int) -> bool:
    return content_digest(component) == component.stem


async def component(
    toolchain: Toolchain,
    code: str | None,
    folder: Path,
    *,
    report: Callable[[str], None],
    activity: str,
    heap: int,
    limit: float = LIMIT_SECONDS,
) -> tuple[Path, str]:
    """Return a component as `make_component` does; one that is cached in the folder has no output.

    `activity` describes the work in progress messages.
    """
    if cached := cached_component(folder):
        return cached, ""
    folder.mkdir(parents=True, exist_ok=True)
    async with locked(folder / "lock", report, activity):
        if cached := cached_component(folder):
            return cached, ""
        report(f"{activity} …")
        return await make_component(toolchain, code, folder, report=report, heap=heap, limit=limit)


async def make_component(
    toolchain: Toolchain,
    code: str | None,
    folder: Path,
    *,
    report: Callable[[str], None],
    heap: int,
    limit: float = LIMIT_SECONDS,
) -> tuple[Path, str]:
    """Make a component in a folder; return it, and the output of its creation.

    `code` is its bundled main module, `None` for that of the dev loader. `heap` is the maximum of objects, in
    MiB. Raises `BuildFailed` and `ComponentRefused`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    world = "loader" if code is None else "service"
    with temporary_folder("making-", folder) as temporary:
        module = temporary / MODULES[world]
        if code is not None:
            module.write_text(code, encoding="utf-8")
        else:
            status, output = await bundle_glue(toolchain, "loader.js", "esm", module)
            if status != 0:
                raise ComponentRefused(output)
        output_file = module.with_suffix(".wasm")
        template = await _template(toolchain, world, report)
        arguments = map(str, (template, module, output_file, heap))
        command = [toolchain.node, toolchain.script("component.mjs"), *arguments]
        try:
            async with asyncio.timeout(limit):
                status, output = await run(command, module.parent, nice=True)
        except TimeoutError as error:
            raise ComponentRefused("", timed_out=True) from error
        if status < 0:
            raise BuildFailed(
                f"the build of the component was ended by signal {-status}",
                "Check the free memory of this machine: a large module needs up to 4 GB.",
                output=output,
            )
        if status != 0 or not output_file.exists():
            raise ComponentRefused(output)
        digest = await asyncio.to_thread(content_digest, output_file)
        return output_file.replace(folder / f"{digest}.wasm"), output


async def bundle_glue(toolchain: Toolchain, name: str, form: str, target: Path) -> tuple[int, str]:
    """Bundle a file of the glue with what it imports; return the exit code and the output of the tool.

    `form` is the format of modules, "esm" or "cjs".
    """
    command = [toolchain.node, toolchain.script("glue.mjs"), str(GLUE / name), form, str(target)]
    return await run(command, target.parent)


async def _template(toolchain: Toolchain, world: str, report: Callable[[str], None]) -> Path:
    """Return the folder of a world's template; the first use of a toolchain makes it.

    Raises `BuildFailed`.
    """
    folder = toolchain.folder / f"template-{world}"
    if folder.exists():
        return folder
    async with locked(toolchain.folder / f"{folder.name}.lock", report, "preparing the js toolchain"):
        if folder.exists():
            return folder
        with temporary_folder("making-", toolchain.folder) as temporary:
            module, template = temporary / MODULES[world], temporary / folder.name
            module.write_text("addEventListener('fetch', () => {});\n")
            template.mkdir()
            script, wit = toolchain.script("template.mjs"), str(toolchain.wit / world)
            command = [toolchain.node, script, module.name, wit, world, str(template)]
            code, output = 0, ""
            if world == "service":
                code, output = await bundle_glue(toolchain, "deploy.js", "cjs", template / GLUE_MODULE)
            if code == 0:
                code, output = await run(command, module.parent, nice=True)
            if code != 0:
                raise BuildFailed("cannot prepare the js toolchain", toolchain.repair, output=output)
            return template.replace(folder)
