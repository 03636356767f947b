"""The go lane: an ordinary http.Handler, compiled by mainline Go and made a wasi:http component.

Go caches compiled packages itself. The linked module stays in place, so that Go detects an unchanged
program. The component is named by its sha256.
"""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Diagnostic, Tool, ToolchainMissing, code_frame
from engine.wasm_binary import UnsupportedBinary
from lanes.go import SPEC, toolchain
from lanes.go.component import NoHandler, NotHosted, component, read
from lanes.go.toolchain import Go, compilation
from lanes.go.workspace import LIBRARY, Workspace, workspace, write_vendor
from lanes.identity import identity
from lanes.prebuilt_component import build_or_take, cache_component
from lanes.process import Tail, locked, run_group
from lanes.wheel_toolchain import tool

_FIELDS = "Dir,Standard,Module,GoFiles,SFiles,EmbedFiles"


async def inputs(go: Go, request: BuildRequest, work: Workspace) -> frozenset[Path]:
    """Return these files; none if Go cannot list them, for example if the program does not compile."""
    output = bytearray()
    environ = {**go.environ(os.environ), "GOWORK": str(work.file)}
    command = [go.program, "list", "-deps", f"-json={_FIELDS}", "."]
    if await run_group(command, request.resource.workdir, output.extend, lambda _: None, environ) != 0:
        return frozenset()
    paths = {folder / name for folder in {work.module, *work.modules} for name in ("go.mod", "go.sum")}
    if work.user_file is not None:
        paths |= {work.user_file, work.user_file.with_name("go.work.sum")}
    for package in _packages(output.decode()):
        folder = Path(package["Dir"]).resolve()
        is_downloaded = folder.is_relative_to(work.downloads)
        if package.get("Standard") or is_downloaded or folder.is_relative_to(LIBRARY):
            continue
        names = [name for kind in ("GoFiles", "SFiles", "EmbedFiles") for name in package.get(kind) or ()]
        paths |= {folder / name for name in names}
        if settings := package.get("Module", {}).get("GoMod"):
            paths.add(Path(settings))
    return frozenset(path for path in paths if path.is_file())


def _packages(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), 0
    while start := text.find("{", at) + 1:
        package, at = decoder.raw_decode(text, start - 1)
        yield package


_POSITION = re.compile(r"^(?:vet: )?(?P<file>\S.*?\.go):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<message>.*)$")
_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|module lookup disabled|proxyconnect|"
    r"TLS handshake|temporary failure in name resolution|502 Bad Gateway|503 Service"
)
_GET = re.compile(r"^\s*(go get \S+|go mod \S+.*)$", re.MULTILINE)
_NEWER = re.compile(r"requires go >= (?P<wanted>[\w.]+) \(running go (?P<used>[\w.]+)")
_NO_ROOM = re.compile(r"no space left on device|read-only file system|file too large|disk quota")
_EXCLUDED = re.compile(
    r"(?:package|imports) (?P<package>\S+): build constraints exclude all Go files in (?P<folder>.+)"
)
_CGO = re.compile(r'^(?:import|\s)\s*"C"', re.MULTILINE)
_MAX_DIAGNOSTICS = 20


def explain(request: BuildRequest, output: str) -> BuildFailed:
    """Return the error for a `go build` that failed."""
    errors, shown, hint = diagnostics(request, output), tuple[Diagnostic, ...](), ""
    if _NO_ROOM.search(output):
        problem = " could not be built: the disk is full or read-only"
        hint = "Free some space for Go's cache (`go env GOCACHE`) and svc's cache (SVC_HOME)."
    elif _NETWORK.search(output):
        problem = ": a module has to be downloaded and could not be"
        hint = "Run `go mod download` in its folder while the machine is online."
    elif newer := _NEWER.search(output):
        problem = f" needs Go {newer['wanted']}, and {newer['used']} is used"
        hint = "Install a newer `go` on PATH, or lower the version in go.mod and in those of its modules."
    elif command := _GET.search(output):
        problem, shown = " needs a module that its go.mod does not name", errors
        hint = f"Run `{command[1]}` in {request.display_path(request.resource.workdir)}."
    elif excluded := _EXCLUDED.search(output):
        files = Path(excluded["folder"]).glob("*.go")
        if any(_CGO.search(file.read_text(errors="replace")) for file in files):
            problem = f": the package {excluded['package']} needs cgo, and a component has no C code"
            hint = "Use a package in Go alone. For SQLite, use svc/guest/tables/sqldb."
        else:
            problem = f": the package {excluded['package']} has no files for GOOS=wasip1 and GOARCH=wasm"
            hint = (
                "Use another package, or import it in files with a build constraint such as"
                " //go:build !wasip1."
            )
    elif "is not a main package" in output or "requires exactly one main package" in output:
        problem = f": {request.display_path(request.resource.workdir)} has no main package"
        hint = "Set `workdir` in svc.toml to the folder of `package main`, whose main calls guest.Serve."
    elif errors:
        problem, shown = f" does not compile: {len(errors)} error{'s' if len(errors) > 1 else ''}", errors
    else:
        problem, hint = " does not build", f"`go build` said:\n{output.strip()}"
    return BuildFailed(f"resource {request.resource.name}{problem}", hint, diagnostics=shown, output=output)


def diagnostics(request: BuildRequest, output: str) -> tuple[Diagnostic, ...]:
    """Return the diagnostics with positions, each with its continuation lines."""
    result: list[Diagnostic] = []
    for line in output.splitlines():
        match = _POSITION.match(line)
        if match is None:
            continue
        if len(result) == _MAX_DIAGNOSTICS:
            break
        file = request.resource.workdir / match["file"]
        number, column = int(match["line"]), int(match["column"] or 0)
        name = request.display_path(file.resolve())
        frame = code_frame(file, number, column, counts_bytes=True)  # So does Go.
        result.append(Diagnostic(match["message"], name, number, column, frame))
    return tuple(result)


LIMIT_SECS = 900.0


class GoLane:
    """Builds go resources. `limit_secs` is the time that one run of Go may take."""

    spec = SPEC

    def __init__(self, limit_secs: float = LIMIT_SECS) -> None:
        self._limit_secs = limit_secs
        self._go: Go | None = None
        self._installing = asyncio.Lock()

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        return (tool("go", await toolchain.find(cache)),)

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Install Go if it is missing, and compile its standard packages. Raises `ToolchainMissing`."""
        go = await toolchain.ensure(cache, report)
        try:
            await toolchain.warm(go, LIBRARY, cache, report)
        except OSError as error:
            raise ToolchainMissing(
                f"the go lane cannot prepare its builds: {error}",
                "Free some space, or set SVC_HOME to a writable folder.",
            ) from error

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of the used Go and its settings."""
        return identity(*toolchain.decisive(cache))

    async def build(self, request: BuildRequest) -> ComponentArtifact:
        return await build_or_take(request, self._build)

    async def _build(self, request: BuildRequest) -> ComponentArtifact:
        async with self._installing:
            if self._go is None or not os.access(self._go.program, os.X_OK):
                self._go = await toolchain.ensure(request.cache, request.report)
        go = self._go
        if not (request.cache / "go" / "components").is_dir():
            request.report("compiling Go's packages for components, once …")
        work = await workspace(go, request)
        folder = work.file.parent
        async with locked(folder / "lock", request.report, f"building resource {request.resource.name}"):
            module = folder / "module.wasm"
            write_vendor(work.vendor, folder)
            listing = asyncio.create_task(inputs(go, request, work))
            try:
                await self._compile(go, request, work, module)
                artifact = await asyncio.to_thread(_component, request, module)
                return ComponentArtifact(artifact, artifact.stem, inputs=await listing)
            finally:
                listing.cancel()
                await asyncio.wait([listing])

    async def _compile(self, go: Go, request: BuildRequest, work: Workspace, module: Path) -> None:
        output = Tail()
        environ = {**go.environ(os.environ), "GOWORK": str(work.file)}
        has_zone = request.resource.env.get("TZ", "UTC") not in ("", "UTC")
        command = compilation(go, work.root, request.cache, module, ".", time_zones=has_zone)
        try:
            async with asyncio.timeout(self._limit_secs):
                status = await run_group(command, request.resource.workdir, output.feed, environ=environ)
        except TimeoutError:
            raise BuildFailed(
                f"resource {request.resource.name}: Go did not end within {self._limit_secs:g} seconds and "
                "was stopped",
                "Try again: Go continues with the packages it has compiled.",
                output=output.text,
            ) from None
        if status < 0:
            raise BuildFailed(
                f"resource {request.resource.name}: Go was ended by signal {-status}",
                "SIGKILL (9) often means that the machine ran out of memory.",
                output=output.text,
            )
        if status != 0:
            raise explain(request, output.text)

    async def aclose(self) -> None:
        """Do nothing: no process runs between builds."""


def _component(request: BuildRequest, module: Path) -> Path:
    """Write the component of a module to the cache, named by its sha256; return its path."""
    name = request.resource.name
    try:
        binary = component(read(module.read_bytes()))
    except NotHosted as error:
        raise BuildFailed(
            f"resource {name} imports {error}, which is not available",
            "Remove the //go:wasmimport that asks for it, in the program or in a package.",
        ) from None
    except NoHandler:
        raise BuildFailed(
            f"resource {name} answers no requests: it does not use the guest library",
            'Import "svc/guest" and call guest.Serve(handler) in main.',
        ) from None
    except UnsupportedBinary as error:
        raise BuildFailed(
            f"resource {name}: the module made by Go cannot be read: {error}",
            "Check `go version`: the lane supports Go 1.24 to 1.27.",
        ) from None
    return cache_component(request.cache / "go" / "components", binary)
