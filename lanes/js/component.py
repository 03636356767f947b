"""Components of bundled modules, cached: a template of componentize-js with the snapshot of a module.

The caller names the cache folder of a component after everything that shapes it. Writes are atomic and
locked.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from pathlib import Path

from engine.lane import BuildFailed
from lanes.js.toolchain import Toolchain
from lanes.lock import locked
from lanes.process import run

MODULES = {"service": "svc-app.js", "loader": "svc-loader.js"}
"""The name of a world's main module, which stack traces contain."""
LIMIT_SECONDS = 120.0
"""Time limit for loading a module."""


class ComponentRefused(Exception):
    """The module cannot be made a component; `output` is the output of the tool and the module."""

    def __init__(self, output: str, *, late: bool = False) -> None:
        super().__init__(output)
        self.output = output
        self.late = late


@dataclass(frozen=True, slots=True)
class SnapshotSpec:
    """A component to make: `write` writes its bundled main module to a file."""

    toolchain: Toolchain
    world: str
    _: KW_ONLY
    kept: Path
    write: Callable[[Path], Awaitable[None]]
    report: Callable[[str], None]
    doing: str
    limit: float = LIMIT_SECONDS


def cached_component(folder: Path) -> Path | None:
    """Return the component cached in a folder; its name is its sha256 (hex)."""
    return next(folder.glob("*.wasm"), None)


async def component(order: SnapshotSpec) -> tuple[Path, str]:
    """Return the component and the output of its creation; a cached one has none.

    Raises `ComponentRefused`.
    """
    if found := cached_component(order.kept):
        return found, ""
    order.kept.mkdir(parents=True, exist_ok=True)
    async with locked(order.kept / "lock", order.report, order.doing):
        if found := cached_component(order.kept):
            return found, ""
        order.report(f"{order.doing} …")
        with tempfile.TemporaryDirectory(prefix="svc-js-") as making:
            module = Path(making) / MODULES[order.world]
            await order.write(module)
            return await _make(order, module)


async def _make(order: SnapshotSpec, module: Path) -> tuple[Path, str]:
    out = module.with_suffix(".wasm")
    toolchain = order.toolchain
    template = await _template(toolchain, order.world, order.report)
    command = [toolchain.node, toolchain.script("component.mjs"), str(template), str(module), str(out)]
    try:
        async with asyncio.timeout(order.limit):
            code, output = await run(command, module.parent, nice=True)
    except TimeoutError as error:
        raise ComponentRefused("", late=True) from error
    if code != 0 or not out.exists():
        raise ComponentRefused(output)
    digest = await asyncio.to_thread(lambda: sha256(out.read_bytes()).hexdigest())
    arriving = order.kept / "arriving"
    await asyncio.to_thread(shutil.copyfile, out, arriving)
    return arriving.replace(order.kept / f"{digest}.wasm"), output


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
        with tempfile.TemporaryDirectory(prefix="making-", dir=toolchain.folder) as making:
            module, template = Path(making) / MODULES[world], Path(making) / folder.name
            module.write_text("addEventListener('fetch', () => {});\n")
            template.mkdir()
            script, wit = toolchain.script("template.mjs"), str(toolchain.wit / world)
            command = [toolchain.node, script, module.name, wit, world, str(template)]
            code, output = await run(command, module.parent, nice=True)
            if code != 0:
                raise BuildFailed("cannot prepare the js toolchain", toolchain.repair, output=output)
            return template.replace(folder)
