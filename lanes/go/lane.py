"""The go lane: an ordinary http.Handler, compiled by mainline Go and made a wasi:http component.

Go caches compiled packages itself. The linked module stays in place, so that Go detects an unchanged
program. The component is named by its sha256.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Tool, ToolchainMissing
from engine.wasm_binary import UnsupportedBinary
from lanes.go import SPEC, toolchain
from lanes.go.component import NoHandler, NotHosted, component
from lanes.go.core_module import read
from lanes.go.errors import explain
from lanes.go.inputs import inputs
from lanes.go.toolchain import Go, compilation
from lanes.go.workspace import LIBRARY, Workspace, workspace, write_vendor
from lanes.identity import identity
from lanes.lock import locked
from lanes.prebuilt_component import build_or_take, cache_component
from lanes.process import Tail, run_group

LIMIT_SECS = 900.0


class GoLane:
    """Builds go resources. `limit_secs` is the time that one run of Go may take."""

    spec = SPEC

    def __init__(self, limit_secs: float = LIMIT_SECS) -> None:
        self._limit_secs = limit_secs
        self._go: Go | None = None
        self._installing = asyncio.Lock()

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        return (toolchain.tool(await toolchain.find(cache)),)

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
        """Build one resource. Raises `BuildFailed` and `ToolchainMissing`."""
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
