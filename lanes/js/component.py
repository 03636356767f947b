"""Components of bundled modules, made with componentize-js and cached.

The caller names the cache folder of a component after everything that shapes it. Writes are atomic and
locked.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lanes.js.toolchain import Toolchain
from lanes.lock import locked
from lanes.process import run

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
            module = Path(making) / ("svc-loader.js" if order.world == "loader" else "svc-app.js")
            await order.write(module)
            return await _make(order, module)


async def _make(order: SnapshotSpec, module: Path) -> tuple[Path, str]:
    out = module.with_suffix(".wasm")
    toolchain = order.toolchain
    command = [
        *(toolchain.node, toolchain.script("componentize.mjs")),
        *(module.name, str(toolchain.wit / order.world), order.world, out.name),
    ]
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
