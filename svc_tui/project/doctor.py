"""The checks of `svc doctor`: prerequisites of svc itself, and the tools of each lane."""

import asyncio
import importlib.util
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from engine.errors import SvcError
from engine.lane import Lane, Tool
from svc_tui.user_home import Home

State = Literal["found", "managed", "installable", "missing"]
MIN_FREE_MIB = 1000
"""Space for the toolchains of all lanes and some compiled components."""


@dataclass(frozen=True, slots=True)
class Check:
    """A checked tool; `group` is `svc` or a lane. A check that is not `needed` cannot fail."""

    group: str
    tool: Tool
    needed: bool

    @property
    def state(self) -> State:
        """The state of the tool; the first build or `svc doctor --fix` installs an `installable` one."""
        if not self.tool.problem:
            return "managed" if self.tool.managed else "found"
        return "installable" if self.tool.managed else "missing"

    @property
    def failed(self) -> bool:
        """True if builds fail because of this tool."""
        return self.needed and self.state == "missing"


async def run_checks(lanes: Mapping[str, Lane], lanes_in_use: set[str] | None, home: Home) -> list[Check]:
    """Run all checks. `lanes_in_use` has the lanes of the project, or is None outside of one."""
    python = Tool("python", platform.python_version(), path=sys.executable)
    checks = [Check("svc", tool, needed=True) for tool in (python, _pip(), _wasmtime(), _home(home))]
    lane_tools = await asyncio.gather(*(lane.tools(home.root / "cache") for lane in lanes.values()))
    for name, tools in zip(lanes, lane_tools, strict=True):
        required = lanes_in_use is not None and name in lanes_in_use
        checks += [Check(name, tool, required) for tool in tools or (Tool(name, "nothing needed"),)]
    for name in sorted((lanes_in_use or set()) - set(lanes)):
        problem = f"this version of svc has no lane {name}"
        checks.append(Check(name, Tool(name, problem=problem, remedy="install a newer svc"), needed=True))
    return checks


def _pip() -> Tool:
    if importlib.util.find_spec("pip") is None:
        remedy = f"{sys.executable} -m ensurepip"
        return Tool("pip", problem="not installed: svc cannot install toolchains", remedy=remedy)
    return Tool("pip", version("pip"))


def _wasmtime() -> Tool:
    reinstall = f"{sys.executable} -m pip install --force-reinstall wasmtime"
    try:
        from wasmtime import Engine, WasmtimeError

        from engine.wasm.compile.compilers import Compiler
        from engine.wasm.execution.config import compile_config
    except (ImportError, OSError, RuntimeError) as error:
        return Tool("wasmtime", problem=f"cannot be loaded: {error}", remedy=reinstall)
    try:
        Engine(compile_config(Compiler.OPTIMIZING))
    except WasmtimeError as error:
        return Tool("wasmtime", version("wasmtime"), problem=f"does not start: {error}", remedy=reinstall)
    return Tool("wasmtime", version("wasmtime"))


def _home(home: Home) -> Tool:
    try:
        cache = home.cache()
        with tempfile.TemporaryFile(dir=cache):
            free_mib = shutil.disk_usage(cache).free >> 20
    except SvcError as error:
        return Tool("SVC_HOME", path=str(home.root), problem=error.message, remedy=error.hint)
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        remedy = "set SVC_HOME to a folder that you can write to"
        return Tool("SVC_HOME", path=str(home.root), problem=problem, remedy=remedy)
    if free_mib < MIN_FREE_MIB:
        remedy = f"free disk space, or set SVC_HOME to a folder on another disk (you may delete `{cache}`)"
        return Tool("SVC_HOME", path=str(home.root), problem=f"only {free_mib} MiB free", remedy=remedy)
    return Tool("SVC_HOME", f"{free_mib >> 10} GiB free", path=str(home.root))
