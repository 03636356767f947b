"""The js lane: JavaScript or TypeScript with a default export that has `fetch(request)`.

A dev build is an esbuild bundle that a ready-made loader component evaluates at each request; a deploy
build is a component with the evaluated module in a snapshot. Both go through the same glue.
"""

import asyncio
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Diagnostic
from engine.sourcemap import SourceMap
from lanes.js.bundler import Bundler
from lanes.js.diagnostics import EXPORT_HINT, NO_EXPORT, bundle_failure, evaluation_failure
from lanes.js.process import run
from lanes.js.toolchain import GLUE, Toolchain, ensure, locked

LOOKED_FOR = "package.json (module, main), src/index.ts, src/index.js, index.ts, index.js"


class JsLane:
    """Builds js Resources."""

    name = "js"

    def __init__(self) -> None:
        self._bundler = Bundler()
        self._toolchain: Toolchain | None = None
        self._installing = asyncio.Lock()

    async def build(self, request: BuildRequest) -> ComponentArtifact:
        """Build one Resource. Raises `BuildFailed` and `ToolchainMissing`."""
        entry = _entry(request)
        async with self._installing:
            if self._toolchain is None:
                self._toolchain = await ensure(request.cache, request.report)
        toolchain = self._toolchain
        name = entry.relative_to(request.root).as_posix()
        deploy = request.mode == "deploy"
        answer = await self._bundler.bundle(
            toolchain,
            entry=str(entry),
            name=name,
            root=str(request.root),
            glue=str(GLUE) if deploy else None,
        )
        if "errors" in answer:
            raise bundle_failure(answer["errors"], request, name)
        _refuse_exportless(answer, name)
        inputs = _outside(answer["inputs"], request)
        source_map = answer["map"].encode()
        if deploy:
            component = await self._snapshot(toolchain, request, answer["code"], source_map)
            return ComponentArtifact(component, component.stem, None, source_map, inputs)
        loader = await self._loader(toolchain, request)
        return ComponentArtifact(loader, loader.stem, answer["code"], source_map, inputs)

    async def aclose(self) -> None:
        """End the bundler."""
        await self._bundler.aclose()

    async def _loader(self, toolchain: Toolchain, request: BuildRequest) -> Path:
        """Return the loader component, made when this toolchain is used for the first time."""
        kept = toolchain.folder / "loader"
        found = next(kept.glob("*.wasm"), None) if kept.is_dir() else None
        if found is not None:
            return found
        async with locked(toolchain.folder / "loader.lock", request.report):
            found = next(kept.glob("*.wasm"), None) if kept.is_dir() else None
            if found is not None:
                return found
            request.report("making the js dev loader, once …")
            with tempfile.TemporaryDirectory(prefix="svc-js-", dir=_plain_temporary()) as making:
                module = Path(making) / "svc-loader.js"
                code, output = await run(
                    [toolchain.node, toolchain.script("loader.mjs"), str(GLUE), str(module)], Path(making)
                )
                if code != 0:
                    raise BuildFailed("the js dev loader could not be bundled", output=output)
                return await self._componentize(toolchain, "loader", module, kept)

    async def _snapshot(
        self, toolchain: Toolchain, request: BuildRequest, code: str, source_map: bytes
    ) -> Path:
        """Return the component of a bundle, from the cache if it was made before."""
        key = sha256(f"{toolchain.key}\0{code}".encode()).hexdigest()
        kept = request.cache / "js" / key
        found = next(kept.glob("*.wasm"), None) if kept.is_dir() else None
        if found is not None:
            return found
        request.report(f"{request.resource.name}: making a component …")
        with tempfile.TemporaryDirectory(prefix="svc-js-", dir=_plain_temporary()) as making:
            module = Path(making) / "svc-app.js"
            module.write_text(code, encoding="utf-8")
            try:
                return await self._componentize(toolchain, "service", module, kept)
            except BuildFailed as error:
                mapping = SourceMap.parse(source_map)
                raise evaluation_failure(error.output, mapping, request) from error

    async def _componentize(self, toolchain: Toolchain, world: str, module: Path, kept: Path) -> Path:
        """Make a component in `kept`, a folder that appears with the finished file in it."""
        out = module.with_suffix(".wasm")
        code, output = await run(
            [
                *(toolchain.node, toolchain.script("componentize.mjs")),
                *(module.name, str(toolchain.wit / world), world, out.name),
            ],
            module.parent,
            nice=True,
        )
        if code != 0 or not out.exists():
            raise BuildFailed("the module could not be made a component", output=output)
        digest = sha256(out.read_bytes()).hexdigest()
        kept.parent.mkdir(parents=True, exist_ok=True)
        placed = Path(tempfile.mkdtemp(prefix=".making-", dir=kept.parent))
        try:
            shutil.copyfile(out, placed / f"{digest}.wasm")
            if not kept.exists():
                placed.replace(kept)
        finally:
            shutil.rmtree(placed, ignore_errors=True)
        # Whoever was first with this key is right: snapshots of one bundle differ in no way that shows.
        return next(kept.glob("*.wasm"))


def _plain_temporary() -> str | None:
    """Return a temporary folder without white space in its path, which the snapshot tool needs."""
    return None if not any(c.isspace() for c in tempfile.gettempdir()) else "/tmp"


def _entry(request: BuildRequest) -> Path:
    resource = request.resource
    entry = resource.entry
    if entry is None:
        raise BuildFailed(
            f"Resource {resource.name} has no entry module in {_shown(resource.workdir, request)}",
            f'Looked for: {LOOKED_FOR}. Or name it in svc.toml: entry = "main.ts"',
        )
    if not entry.is_file():
        raise BuildFailed(
            f"Resource {resource.name}: the entry module {_shown(entry, request)} does not exist",
            "Make the file, or change entry in svc.toml.",
        )
    return entry


def _shown(path: Path, request: BuildRequest) -> str:
    relative = path.relative_to(request.root).as_posix() if path.is_relative_to(request.root) else str(path)
    return relative if relative != "." else "the Project folder"


def _refuse_exportless(answer: dict[str, Any], name: str) -> None:
    for item in answer["inputs"]:
        if item["path"] != name:
            continue
        if item["bytes"] == 0:
            raise BuildFailed(f"{name} is empty", diagnostics=(Diagnostic("the file is empty", name, 1, 1),))
        if "format" not in item:
            raise BuildFailed(
                f"{name} exports nothing", EXPORT_HINT, diagnostics=(Diagnostic(NO_EXPORT, name, 1, 1),)
            )


def _outside(inputs: list[dict[str, Any]], request: BuildRequest) -> frozenset[Path]:
    """Return the inputs that a watcher of `workdir` would not see."""
    paths = set()
    for item in inputs:
        path = (request.root / item["path"]).resolve()
        own = path.is_relative_to(request.resource.workdir) or path.is_relative_to(GLUE)
        if ":" not in item["path"] and not own and "node_modules" not in path.parts:
            paths.add(path)
    return frozenset(paths)
