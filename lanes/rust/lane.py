"""The rust lane: any crate that exports a wasi:http handler, built by the user's own cargo.

cargo caches its work in the crate's own `target`. The component is copied to the cache, so that later builds
do not change an artifact.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from engine.artifact import ComponentArtifact
from engine.lane import BuildFailed, BuildRequest, Tool, ToolchainMissing
from lanes.identity import identity
from lanes.prebuilt_component import build_or_take
from lanes.rust import SPEC, cargo, toolchain
from lanes.rust.component import copy_component
from lanes.rust.errors import explain, timeout_error
from lanes.rust.messages import Messages

_WARNINGS_SHOWN = 10


class RustLane:
    """Builds rust resources. `limit_secs` is the time that one run of cargo may take."""

    spec = SPEC

    def __init__(self, limit_secs: float = cargo.LIMIT_SECS) -> None:
        self._limit_secs = limit_secs

    async def tools(self, cache: Path) -> tuple[Tool, ...]:
        """Return cargo, rustc and the target, as found from the current folder."""
        return await toolchain.tools(Path.cwd())

    async def install(self, cache: Path, report: Callable[[str], None]) -> None:
        """Raise `ToolchainMissing` if a tool is missing; the user installs Rust."""
        missing = await toolchain.problem(Path.cwd())
        if missing is not None:
            raise missing

    def identity(self, cache: Path) -> str:
        """Return the fingerprint of cargo and rustc, including those behind rustup's proxies."""
        return identity(*toolchain.decisive())

    async def build(self, request: BuildRequest) -> ComponentArtifact:
        """Build one resource. Raises `BuildFailed` and `ToolchainMissing`."""
        return await build_or_take(request, self._build)

    async def _build(self, request: BuildRequest) -> ComponentArtifact:
        workdir = request.resource.workdir
        if not (workdir / "Cargo.toml").is_file():
            raise BuildFailed(
                f"resource {request.resource.name}: there is no Cargo.toml in"
                f" {request.display_path(workdir)}",
                "Create a crate to start with: `svc new NAME --template rust`.",
            )
        program = toolchain.program("cargo")
        if program is None:
            raise await toolchain.problem(workdir) or ToolchainMissing("cargo is not on PATH")
        try:
            result = await cargo.build(
                program, request.mode, workdir, request.root, request.report, self._limit_secs
            )
        except cargo.CargoTimeout as error:
            raise timeout_error(request, self._limit_secs, str(error)) from None
        if result.status != 0:
            raise await explain(request, result)
        _report_warnings(request, result.messages)
        return await asyncio.to_thread(copy_component, request, result.messages)

    async def aclose(self) -> None:
        """Do nothing: no process runs between builds."""


def _report_warnings(request: BuildRequest, messages: Messages) -> None:
    for warning in messages.warnings[:_WARNINGS_SHOWN]:
        position = f"{warning.file}:{warning.line}:{warning.column}"
        request.report(f"{request.resource.name}: {position}: warning: {warning.message}")
    more = len(messages.warnings) - _WARNINGS_SHOWN
    if more > 0:
        request.report(f"{request.resource.name}: and {more} more warning{'s' if more > 1 else ''}")
