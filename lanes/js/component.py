"""Components of bundled modules, cached: a template of componentize-js with the snapshot of a module.

The caller names the cache folder of a component after everything that shapes it. Writes are atomic and
locked.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
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


@dataclass(frozen=True, slots=True)
class SnapshotSpec:
    """A component to make: `code` is its bundled main module, `None` for that of the dev loader.

    `heap` is the maximum of objects, in MiB.
    """

    toolchain: Toolchain
    code: str | None
    _: KW_ONLY
    cache_folder: Path
    report: Callable[[str], None]
    activity: str
    heap: int
    limit: float = LIMIT_SECONDS

    @property
    def world(self) -> str:
        return "loader" if self.code is None else "service"


def cached_component(folder: Path) -> Path | None:
    """Return the component cached in a folder; its name is its sha256 (hex). A corrupt one does not count."""
    return next((each for each in folder.glob("*.wasm") if _is_whole(each, each.stat().st_mtime_ns)), None)


@cache
def _is_whole(component: Path, _modified_ns: int) -> bool:
    return content_digest(component) == component.stem


async def component(spec: SnapshotSpec) -> tuple[Path, str]:
    """Return the component and the output of its creation; a cached one has none.

    Raises `ComponentRefused`.
    """
    if cached := cached_component(spec.cache_folder):
        return cached, ""
    spec.cache_folder.mkdir(parents=True, exist_ok=True)
    async with locked(spec.cache_folder / "lock", spec.report, spec.activity):
        if cached := cached_component(spec.cache_folder):
            return cached, ""
        spec.report(f"{spec.activity} …")
        return await make_component(spec)


async def make_component(spec: SnapshotSpec) -> tuple[Path, str]:
    """Make a component even if it is cached. Raises `BuildFailed` and `ComponentRefused`."""
    spec.cache_folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder("making-", spec.cache_folder) as folder:
        module = folder / MODULES[spec.world]
        if spec.code is not None:
            module.write_text(spec.code, encoding="utf-8")
        else:
            code, output = await bundle_glue(spec.toolchain, "loader.js", "esm", module)
            if code != 0:
                raise ComponentRefused(output)
        output_file = module.with_suffix(".wasm")
        toolchain = spec.toolchain
        template = await _template(toolchain, spec.world, spec.report)
        arguments = map(str, (template, module, output_file, spec.heap))
        command = [toolchain.node, toolchain.script("component.mjs"), *arguments]
        try:
            async with asyncio.timeout(spec.limit):
                code, output = await run(command, module.parent, nice=True)
        except TimeoutError as error:
            raise ComponentRefused("", timed_out=True) from error
        if code < 0:
            raise BuildFailed(
                f"the build of the component was ended by signal {-code}",
                "Check the free memory of this machine: a large module needs up to 4 GB.",
                output=output,
            )
        if code != 0 or not output_file.exists():
            raise ComponentRefused(output)
        digest = await asyncio.to_thread(content_digest, output_file)
        return output_file.replace(spec.cache_folder / f"{digest}.wasm"), output


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
