"""The js lane: JavaScript or TypeScript with a default export that has `fetch(request)`.

A dev build is an esbuild bundle that a ready-made loader component evaluates at each request, until a
component with the evaluated bundle in a snapshot is made; a deploy build is such a component. All go through
the same glue.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Diagnostic, Tool
from engine.sourcemap import SourceMap
from lanes.identity import identity
from lanes.js import SPEC
from lanes.js.bundler import Bundler
from lanes.js.component import (
    LIMIT_SECONDS,
    ComponentRefused,
    SnapshotSpec,
    bundle_glue,
    component,
    make_component,
)
from lanes.js.errors import (
    EXPORT_HINT,
    NO_EXPORT,
    bundle_failure,
    evaluation_failure,
    frozen_time,
    never_loaded,
)
from lanes.js.node import programs
from lanes.js.toolchain import COMPAT, GUEST, Toolchain, ensure, ensure_intl, tools
from lanes.prebuilt_component import build_or_take

_FOLDER = Path(__file__).resolve().parent
MAX_BUNDLE_BYTES = 24 << 20
HEAP_DIVISOR = 4
"""Objects of JavaScript take at most this part of memory_limit_mb."""
DEFAULT_HEAP = 32
_CHECK = (
    "\n({ svcEntry: svcApp.svcEntry, default: typeof svcApp.default?.fetch !== 'function' ? svcApp.default : "
    "{ fetch: () => new Response() } });\n//# sourceURL=svc-app.js\n"
)
"""The end of a script that evaluates a module without calling its handler."""
_IMPORT, _HOST = 'import { svcHost } from "./svc-glue.js";', "\nsvcHost(svcApp.default, svcApp.svcEntry);\n"
"""Around the script of a dev build, they make the main module of a snapshot of it."""
LOOKED_FOR = "package.json (module, main), src/index.ts, src/index.js, index.ts, index.js"


class JsLane:
    """Builds js resources. `limit` is the time for loading a module into a snapshot, in seconds."""

    spec = SPEC

    def __init__(self, limit: float = LIMIT_SECONDS) -> None:
        self._limit = limit
        self._bundler = Bundler()
        self._toolchain: Toolchain | None = None
        self._installing = asyncio.Lock()

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return node and the npm packages that the lane works with."""
        return await tools(cache)

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install what is missing, and make the dev loader. Raises `ToolchainMissing`."""
        await _loader(await ensure(cache, report), DEFAULT_HEAP, report)

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of node; the lane's code pins the npm packages."""
        return identity(programs(cache))

    async def build(self, request: BuildRequest) -> ComponentArtifact:
        """Build one resource. Raises `BuildFailed` and `ToolchainMissing`."""
        return await build_or_take(request, self._build)

    async def _build(self, request: BuildRequest) -> ComponentArtifact:
        entry = _entry(request)
        async with self._installing:
            if self._toolchain is None or not self._toolchain.is_complete():
                self._toolchain = await ensure(request.cache, request.report)
        toolchain = self._toolchain
        if request.loader is not None:
            source_map = request.loader.source_map or b""
            # The script of the loader, so that the first line of the map stays the first line.
            code = _IMPORT + (request.loader.script or "") + _HOST
            component = await self._snapshot(toolchain, request, code, source_map)
            return replace(request.loader, component=component, digest=component.stem, script=None)
        name = entry.relative_to(request.root).as_posix()
        deploy = request.mode == "deploy"
        bundle = partial(
            self._bundler.bundle,
            toolchain,
            entry=str(entry),
            name=name,
            root=str(request.root),
            guest=str(GUEST),
            compat=str(COMPAT),
            deploy=deploy,
        )
        answer = await bundle()
        if "needs" in answer:
            answer = await bundle(intl=str(await ensure_intl(toolchain, request.cache, request.report)))
        if "errors" in answer:
            raise bundle_failure(answer["errors"], request, name)
        _refuse_exportless(answer, name)
        for warning in answer["warnings"]:
            position = (
                f"{warning['file']}:{warning['line']}:{warning['column']}: " if "file" in warning else ""
            )
            request.report(f"{request.resource.name}: {position}{warning['text']}")
        _refuse_large(answer, request.resource.name)
        inputs = _bundled(answer["inputs"], request, toolchain)
        source_map = answer["map"].encode()
        if deploy:
            component = await self._snapshot(toolchain, request, answer["code"], source_map)
            return ComponentArtifact(component, component.stem, None, source_map, inputs)
        loader = await _loader(toolchain, _heap(request), request.report)
        artifact = ComponentArtifact(loader, loader.stem, answer["code"], source_map, inputs)
        if request.evaluate is not None:
            # Without the source map, so that positions are mapped as those of a deploy build.
            check = replace(artifact, script=answer["code"] + _CHECK, source_map=None)
            if (output := await request.evaluate(check)) is not None:
                raise evaluation_failure(output, SourceMap.parse(source_map), request)
        return artifact

    async def aclose(self) -> None:
        await self._bundler.aclose()

    async def _snapshot(
        self, toolchain: Toolchain, request: BuildRequest, code: str, source_map: bytes
    ) -> Path:
        """Return the component of a bundle, cached by its content unless that is a dev build's."""

        async def write(module: Path) -> None:
            module.write_text(code, encoding="utf-8")

        name = request.resource.name
        heap = _heap(request)
        if request.loader is None:
            make, key = component, sha256(f"{toolchain.key}\0{heap}\0{code}".encode()).hexdigest()
            cache_folder = request.cache / "js" / key
        else:
            make, cache_folder = make_component, request.cache / "components"
        activity = f"making the component of {name}"
        mapping = SourceMap.parse(source_map)
        try:
            path, output = await make(
                SnapshotSpec(
                    toolchain,
                    "service",
                    cache_folder=cache_folder,
                    write=write,
                    report=request.report,
                    activity=activity,
                    heap=heap,
                    limit=self._limit,
                )
            )
        except ComponentRefused as error:
            if error.timed_out:
                raise never_loaded(request, self._limit) from error
            raise evaluation_failure(error.output, mapping, request) from error
        if warning := frozen_time(output, mapping):
            request.report(f"{name}: {warning}")
        return path


def _heap(request: BuildRequest) -> int:
    """Return the maximum of objects in MiB. They take twice the memory: the engine aligns them."""
    return request.resource.memory_limit_mb // HEAP_DIVISOR


async def _loader(toolchain: Toolchain, heap: int, report: Callable[[str], None]) -> Path:
    """Return the loader component for a heap; the first use of a toolchain makes it."""

    async def write(module: Path) -> None:
        code, output = await bundle_glue(toolchain, "loader.js", module)
        if code != 0:
            raise ComponentRefused(output)

    folder, activity = toolchain.folder / f"loader-{heap}", "making the js dev loader, once"
    try:
        path, _ = await component(
            SnapshotSpec(
                toolchain,
                "loader",
                cache_folder=folder,
                write=write,
                report=report,
                activity=activity,
                heap=heap,
            )
        )
    except ComponentRefused as error:
        raise BuildFailed("cannot make the js dev loader", toolchain.repair, output=error.output) from error
    return path


def _entry(request: BuildRequest) -> Path:
    resource = request.resource
    entry = resource.entry
    if entry is None:
        raise BuildFailed(
            f"resource {resource.name} has no entry module in {request.display_path(resource.workdir)}",
            f'Looked for: {LOOKED_FOR}. Or name it in svc.toml: entry = "main.ts"',
        )
    if not entry.is_file():
        raise BuildFailed(
            f"resource {resource.name}: the entry module {request.display_path(entry)} does not exist",
            "Create the file, or change entry in svc.toml.",
        )
    return entry


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


def _refuse_large(answer: dict[str, Any], name: str) -> None:
    size = len(answer["code"].encode())
    if size > MAX_BUNDLE_BYTES:
        largest = max(answer["inputs"], key=lambda item: item["bytes"])
        raise BuildFailed(
            f"resource {name}: the bundle has {size >> 20} MiB; the maximum is {MAX_BUNDLE_BYTES >> 20}",
            f"The largest file is {largest['path']} with {largest['bytes'] >> 20} MiB. Store data in tables.",
        )


def _bundled(inputs: list[dict[str, Any]], request: BuildRequest, toolchain: Toolchain) -> frozenset[Path]:
    """Return all files in a bundle except svc's own, including those that `.gitignore` names."""
    # This runs at each save for each file, and strings are faster than paths. esbuild has resolved all links.
    paths = (os.path.normpath(f"{request.root}/{item['path']}") for item in inputs if ":" not in item["path"])
    svc_folders = (f"{_FOLDER}/", f"{os.path.realpath(toolchain.folder.parent)}/")
    return frozenset(Path(path) for path in paths if not path.startswith(svc_folders))
