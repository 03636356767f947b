"""Discovery and installation of Go: the one on PATH if it is new enough, else a managed one in the cache."""

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.files.temporary import temporary_folder
from engine.lane import Tool
from lanes.go.overlay import overlay
from lanes.go.pin import GO
from lanes.process import run
from lanes.wheel_toolchain import install

MIN_VERSION = (1, 24)
"""The first Go that exports functions of a wasip1 library."""
ANSWER_SECONDS = 30.0
_VERSION = re.compile(r"go version go((\d+)\.(\d+)\S*)")
# User settings that would prevent a build for wasip1.
_DROPPED = ("GOFLAGS", "GOOS", "GOARCH", "GOWASM", "GOWORK", "GOROOT", "CGO_ENABLED", "GO111MODULE")


@dataclass(frozen=True, slots=True)
class Go:
    """A usable Go."""

    program: str
    version: str
    managed: bool = False

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the user's environment, adapted to builds for wasip1."""
        variables = {name: value for name, value in environ.items() if name not in _DROPPED}
        variables |= {"GOOS": "wasip1", "GOARCH": "wasm"}
        if self.managed:
            variables["GOTOOLCHAIN"] = "local"
        return variables


async def find(cache: Path) -> Go | str:
    """Return the Go to use, or the reason why none is usable. Installs nothing."""
    go = await _on_path()
    if isinstance(go, Go) or not GO.installed(cache):
        return go
    return _managed(cache)


async def ensure(cache: Path, report: Callable[[str], None]) -> Go:
    """Install Go if none is usable, and return the Go to use. Raises `ToolchainMissing`."""
    go = await find(cache)
    if isinstance(go, Go):
        return go
    await install(GO, cache, report)
    return _managed(cache)


async def warm(go: Go, library: Path, cache: Path, report: Callable[[str], None]) -> None:
    """Compile the guest library and its standard packages in advance of the first build."""
    report("compiling Go's packages for components, once …")
    environ = {**go.environ(os.environ), "GOWORK": "off"}
    _, root = await run([go.program, "env", "GOROOT"], library, environ=environ)
    with temporary_folder("svc-go-") as folder:
        command = compilation(go, Path(root.strip()), cache, folder / "module.wasm", "./internal/warm")
        await run(command, library, environ=environ, nice=True)


def compilation(
    go: Go, root: Path, cache: Path, output: Path, package: str, *, time_zones: bool = False
) -> list[str]:
    """Return the command that builds the core module of a package. `root` is the GOROOT in force there.

    With `time_zones`, the module contains the time zone database, which takes 400 KB.
    The module contains no paths or version control state, so equal sources make equal modules.
    """
    options = [
        "-trimpath",
        "-buildvcs=false",
        "-buildmode=c-shared",
        "-ldflags=-s -w",
        *overlay(root, cache / "go"),
        *(["-tags=svc_tzdata"] if time_zones else []),
    ]
    return [go.program, "build", *options, "-o", str(output), package]


def tool(go: Go | str) -> Tool:
    """Return the result of `find` for `svc doctor`."""
    if isinstance(go, Go):
        return Tool("go", go.version, path=go.program, managed=go.managed)
    return Tool("go", problem=go, remedy="svc doctor --fix", managed=True)


def decisive(cache: Path) -> tuple[list[str | Path | None], dict[str, str]]:
    """Return the files and variables that decide which Go compiles."""
    names = (name for name in os.environ if name.startswith("GO"))
    return [shutil.which("go"), GO.executable(cache)], {name: os.environ[name] for name in names}


def _managed(cache: Path) -> Go:
    return Go(str(GO.executable(cache)), GO.version, managed=True)


async def _on_path() -> Go | str:
    program = shutil.which("go")
    if program is None:
        return "go is not on PATH"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, output = await run([program, "version"], Path("/"))
    except (OSError, TimeoutError) as error:
        return f"{program} cannot be run: {error or 'it does not end'}"
    version = _VERSION.search(output)
    if code != 0 or version is None:
        return f"{program} cannot be run: {output.strip() or f'exit status {code}'}"
    if (int(version[2]), int(version[3])) < MIN_VERSION:
        return f"{program} is {version[1]}, older than {MIN_VERSION[0]}.{MIN_VERSION[1]}"
    return Go(program, version[1])
