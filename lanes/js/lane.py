"""The js lane: JavaScript or TypeScript with a default export that has `fetch(request)`.

A dev build is an esbuild bundle that a ready-made loader component evaluates at each request, until a
component with the evaluated bundle in a snapshot is made; a deploy build is such a component. All go through
the same glue.
"""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.files.atomic import write_atomic
from engine.files.compressed import compress
from engine.lane import BuildFailed, BuildRequest, Diagnostic, Tool, code_frame
from engine.sourcemap import SourceMap
from lanes.identity import identity
from lanes.js import SPEC
from lanes.js.component import LIMIT_SECONDS, ComponentRefused, component, make_component
from lanes.js.toolchain import COMPAT, GUEST, Toolchain, ensure, ensure_intl, programs, tools
from lanes.prebuilt_component import build_or_take
from lanes.process import LineProgram, OutputLines, Tail

_UNRESOLVED = re.compile(r'Could not resolve "([^"]+)"')
_POSITION = re.compile(r"\(([^()]+):(\d+):(\d+)\)")
_ASKED_FOR_TIME = re.compile(r"^svc: the time was asked for\n(.*?)svc: end$", re.MULTILINE | re.DOTALL)
_PACKAGES = re.compile(r"node_modules/((?:@[^/]+/)?[^/\s]+)")
_PACKAGE = re.compile(r".*node_modules/((?:@[^/]+/)?[^/]+)")
_TOOL = ("Failed to initialize component", "Exception while evaluating")
_THROWN = re.compile(r"(?:.+:\d+:\d+ )?(\w*Error\b.*|uncaught exception: .*)")
NO_EXPORT = "the module has no default export"
LOADING_HINT = "Code at the top level of a module runs once, at build time, without environment or network."
EXPORT_HINT = "Add: export default { async fetch(request) { return new Response('hello'); } }"


def import_chain(file: str, importers: Mapping[str, str]) -> str:
    """Return the modules and packages through which a file of a package is imported, or nothing."""
    steps = [file]
    while (importer := importers.get(steps[0], ":")) not in steps and ":" not in importer:
        steps.insert(0, importer)
    packages = (_PACKAGE.match(step) for step in steps)
    names = [match[1] if match else step for step, match in zip(steps, packages, strict=True)]
    return " → ".join(dict.fromkeys(names)) if _PACKAGE.match(file) and len(steps) > 1 else ""


def bundle_failure(answer: Mapping[str, Any], request: BuildRequest, entry: str) -> BuildFailed:
    """Return the error for all diagnostics of esbuild, in their order."""
    hint = ""
    diagnostics = []
    chains = {""}
    for error in answer["errors"]:
        text, file = error["text"], error.get("file", "")
        if file.startswith("svc:"):
            file, error = entry, {}
            if 'import "default"' in text:
                text, hint = NO_EXPORT, EXPORT_HINT
        if (chain := import_chain(file, answer["importers"])) not in chains:
            chains.add(chain)
            text += f" (imported through {chain})"
        if text.startswith("Top-level await"):
            text = "top-level await is not supported: move it into fetch"
        missing = _UNRESOLVED.search(text)
        if missing:
            hint = hint or _unresolved_hint(missing.group(1), request)
        line, column = error.get("line", 0), error.get("column", 0)
        frame = code_frame(request.root / file, line, column, error.get("length", 1)) if line else ""
        diagnostics.append(Diagnostic(text, file, line, column, frame))
    count = "an error" if len(diagnostics) == 1 else f"{len(diagnostics)} errors"
    return BuildFailed(
        f"resource {request.resource.name} does not build: {count}", hint, diagnostics=tuple(diagnostics)
    )


def _unresolved_hint(name: str, request: BuildRequest) -> str:
    if name.startswith((".", "/")):
        return "Check the path: it is relative to the file that imports it, with its extension."
    package = "/".join(name.split("/")[: 2 if name.startswith("@") else 1])
    if instead := _instead([package]):
        return instead
    folder = request.resource.workdir.relative_to(request.root).as_posix()
    in_folder = "" if folder == "." else f" in {folder}"
    package_file = request.resource.workdir / "package.json"
    try:
        is_declared = f'"{package}"' in package_file.read_text()
    except OSError:
        is_declared = False
    return f"Run `npm install`{in_folder}." if is_declared else f"Run `npm install {package}`{in_folder}."


def evaluation_failure(
    output: str, mapping: SourceMap, request: BuildRequest, importers: Mapping[str, str]
) -> BuildFailed:
    """Return the error for a module that failed while it was evaluated for the snapshot."""
    # The notes on the time come from a module that was evaluated, so they do not explain the failure.
    output = _ASKED_FOR_TIME.sub("", output)
    mapped = (mapping.rewrite(line) for line in output.splitlines())
    lines = [line for line in mapped if line and line.strip() and not line.startswith(_TOOL)]
    text = "\n".join(lines)
    positions = list(_POSITION.finditer(text))
    others = (each for each in positions if not _is_own(each[1], request))
    position = next(others, positions[0] if positions else None)
    thrown = next((match for line in lines if (match := _THROWN.match(line))), None)
    message = thrown.group(1) if thrown else lines[-1] if lines else "the engine ended without a message"
    diagnostics: tuple[Diagnostic, ...] = ()
    if position:
        file, line, column = position.group(1), int(position.group(2)), int(position.group(3))
        frame = code_frame(request.root / file, line, column)
        diagnostics = (Diagnostic(message, file, line, column, frame),)
    package = _PACKAGE.match(diagnostics[0].file) if diagnostics else None
    subject = f"the package {package[1]}" if package else "its module"
    if diagnostics and (chain := import_chain(diagnostics[0].file, importers)):
        subject += f" (imported through {chain})"
    return BuildFailed(
        f"resource {request.resource.name}: {subject} fails during loading: {message}",
        _instead(_PACKAGES.findall(text)) or LOADING_HINT,
        diagnostics=diagnostics,
        output=text,
    )


def _is_own(file: str, request: BuildRequest) -> bool:
    """Return whether a file in a stack is one of svc's modules of Node.js."""
    own = file.startswith("svc:") or "/@jspm/core/" in file
    return own or (request.root / file).resolve().is_relative_to(COMPAT)


def _instead(packages: Iterable[str]) -> str:
    """Return the alternative of svc to the first package that cannot work, or nothing."""
    alternatives = json.loads((COMPAT / "instead.json").read_text())["packages"]
    named = (f"Instead of {name}, {alternatives[name]}." for name in packages if name in alternatives)
    return next(named, "")


def frozen_time(output: str, mapping: SourceMap) -> str:
    """Return a warning if a module read the time during loading (see `glue/prelude.js`)."""
    match = _ASKED_FOR_TIME.search(output)
    if match is None:
        return ""
    frames = [mapped for line in match.group(1).splitlines() if (mapped := mapping.rewrite(line))]
    position = next((place for frame in frames if (place := _POSITION.search(frame))), None)
    subject = ":".join(position.groups()) + " asks" if position else "the module asks"
    return f"{subject} for the time while it is loaded; that is the year 2000, in every request"


LINE_LIMIT = 256 << 20
"""Maximum bytes of one response: a bundle and its source map."""


class Bundler:
    """The bundling process. It is restarted after a crash and handles several requests at once."""

    def __init__(self) -> None:
        self._program: LineProgram | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._complaint = Tail()
        self._next = 0

    async def bundle(self, toolchain: Toolchain, **request: Any) -> dict[str, Any]:
        """Return the response to one request. Raises `BuildFailed` if the process fails."""
        answer = await self._request(toolchain, request) or await self._request(toolchain, request)
        if answer is None:
            output = self._complaint.text
            raise BuildFailed("the bundler ended while it worked", toolchain.repair, output=output)
        if "fault" in answer:
            raise BuildFailed("the bundler failed", "Save the file again.", output=answer["fault"])
        return answer

    async def _request(self, toolchain: Toolchain, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response to one request; `None` if the process ends before. Raises OSError."""
        program = self._program
        if program is None or program.running.done():
            await self.aclose()
            self._complaint, lines = Tail(), OutputLines(self._receive, LINE_LIMIT)
            command = [toolchain.node, toolchain.script("bundler.mjs")]
            program = LineProgram(command, toolchain.folder, lines.feed, self._complaint.feed)
            self._program = program
        self._next += 1
        number, future = self._next, asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            program.write(json.dumps({"id": number, **request}).encode())
            waiting: set[asyncio.Future[Any]] = {future, program.running}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[number]
        if future.done():
            answer: dict[str, Any] = future.result()
            return answer
        if not program.running.cancelled():
            program.running.result()
        return None

    def _receive(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
        except ValueError:  # A too long or invalid response: the process cannot be used any longer.
            if self._program is not None:
                self._program.running.cancel()
            return
        future = self._waiting.get(answer.pop("id"))
        if future is not None and not future.done():
            future.set_result(answer)

    async def aclose(self) -> None:
        """End the process and its children."""
        program, self._program = self._program, None
        if program is not None:
            await program.aclose()


_FOLDER = Path(__file__).resolve().parent
MAX_BUNDLE_BYTES = 24 << 20
HEAP_DIVISOR = 4
"""Objects of JavaScript take at most this part of memory_limit_mb; they are aligned in twice that."""
DEFAULT_HEAP = 32
_CHECK = (
    "\n({ svcEntry: svcApp.svcEntry, default: typeof svcApp.default?.fetch !== 'function' ? svcApp.default : "
    "{ fetch: () => new Response() } });\n//# sourceURL=svc-app.js\n"
)
"""The end of a script that evaluates a module without calling its handler."""
_IMPORT, _HOST = 'import { svcHost } from "svc:glue";', "\nsvcHost(svcApp.default, svcApp.svcEntry);\n"
"""Around the script of a dev build, they make the main module of a snapshot of it."""
_EMPTY = _IMPORT + "svcHost({ fetch: () => new Response() }, 'index.js');\n"
"""The main module of the template."""
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
        return await tools(cache)

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install what is missing, and make the dev loader. Raises `ToolchainMissing`."""
        await _loader(await ensure(cache, report), DEFAULT_HEAP, report)

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of node; the lane's code pins the npm packages."""
        return identity(programs(cache))

    async def build(self, request: BuildRequest) -> ComponentArtifact:
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
            component = await self._snapshot(toolchain, request, code, source_map, {})
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
            nodeEnv=request.resource.env.get("NODE_ENV"),
        )
        answer = await bundle()
        if "needs" in answer:
            answer = await bundle(intl=str(await ensure_intl(toolchain, request.cache, request.report)))
        if "errors" in answer:
            raise bundle_failure(answer, request, name)
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
            component = await self._snapshot(
                toolchain, request, answer["code"], source_map, answer["importers"]
            )
            template = await _template(toolchain, request.report)
            return ComponentArtifact(component, component.stem, None, source_map, inputs, template=template)
        loader = await _loader(toolchain, request.resource.memory_limit_mb // HEAP_DIVISOR, request.report)
        artifact = ComponentArtifact(loader, loader.stem, answer["code"], source_map, inputs)
        if request.evaluate is not None:
            # Without the source map, so that positions are mapped as those of a deploy build.
            check = replace(artifact, script=answer["code"] + _CHECK, source_map=None)
            if (output := await request.evaluate(check)) is not None:
                raise evaluation_failure(output, SourceMap.parse(source_map), request, answer["importers"])
        return artifact

    async def aclose(self) -> None:
        await self._bundler.aclose()

    async def _snapshot(
        self,
        toolchain: Toolchain,
        request: BuildRequest,
        code: str,
        source_map: bytes,
        importers: Mapping[str, str],
    ) -> Path:
        """Return the component of a bundle, cached by its content unless that is a dev build's."""
        name = request.resource.name
        heap = request.resource.memory_limit_mb // HEAP_DIVISOR
        make: Callable[..., Awaitable[tuple[Path, str]]] = make_component
        folder = request.cache / "components"
        if request.loader is None:
            make = partial(component, activity=f"making the component of {name}")
            folder = request.cache / "js" / sha256(f"{toolchain.key}\0{heap}\0{code}".encode()).hexdigest()
        mapping = SourceMap.parse(source_map)
        try:
            path, output = await make(
                toolchain, code, folder, report=request.report, heap=heap, limit=self._limit
            )
        except ComponentRefused as error:
            if error.timed_out:
                raise BuildFailed(
                    f"resource {name}: its module was not loaded within {self._limit:g} s",
                    "Code at the top level of a module runs once, at build time: check it for endless loops.",
                ) from error
            raise evaluation_failure(error.output, mapping, request, importers) from error
        if warning := frozen_time(output, mapping):
            request.report(f"{name}: {warning}")
        return path


async def _template(toolchain: Toolchain, report: Callable[[str], None]) -> Path:
    """Return the compressed component of an empty module, from which all others differ little.

    The first use of a toolchain makes it.
    """
    path = toolchain.folder / "component.zst"
    if not path.exists():
        folder, activity = toolchain.folder / "component", "preparing the js toolchain"
        empty, _ = await component(
            toolchain, _EMPTY, folder, report=report, activity=activity, heap=DEFAULT_HEAP
        )
        write_atomic(path, await asyncio.to_thread(lambda: compress(empty.read_bytes())))
    return path


async def _loader(toolchain: Toolchain, heap: int, report: Callable[[str], None]) -> Path:
    """Return the loader component for a heap; the first use of a toolchain makes it."""
    folder, activity = toolchain.folder / f"loader-{heap}", "making the js dev loader, once"
    try:
        path, _ = await component(toolchain, None, folder, report=report, activity=activity, heap=heap)
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
