"""What `svc doctor` looks at: svc's own needs, and each lane's tools.

Owns the checks and which of them matter; prints nothing and installs nothing.
"""

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
ROOM_MB = 1000
"""Toolchains of all lanes and a few compiled components fit into this."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `of` is `svc` or a lane. A check that is not `needed` can not fail."""

    group: str
    tool: Tool
    needed: bool

    @property
    def state(self) -> State:
        """`installable` is not there and is installed by the first build, or by `svc doctor --fix`."""
        if not self.tool.problem:
            return "managed" if self.tool.managed else "found"
        return "installable" if self.tool.managed else "missing"

    @property
    def failed(self) -> bool:
        """Whether a build would fail for it."""
        return self.needed and self.state == "missing"


async def run_checks(lanes: Mapping[str, Lane], used: set[str] | None, home: Home) -> list[Check]:
    """Look at everything. `used` are the lanes of the Project, `None` outside of one."""
    checks = [Check("svc", tool, needed=True) for tool in (_python(), _pip(), _wasmtime(), _home(home))]
    found = await asyncio.gather(*(lane.tools(home.root / "cache") for lane in lanes.values()))
    for name, tools in zip(lanes, found, strict=True):
        needed = used is not None and name in used
        checks += [Check(name, tool, needed) for tool in tools or (Tool(name, "nothing needed"),)]
    for name in sorted((used or set()) - set(lanes)):
        problem = f"the {name} lane is not part of this version of svc"
        checks.append(Check(name, Tool(name, problem=problem, remedy="install a newer svc"), needed=True))
    return checks


def _python() -> Tool:
    return Tool("python", platform.python_version(), sys.executable)


def _pip() -> Tool:
    if importlib.util.find_spec("pip") is None:
        remedy = f"{sys.executable} -m ensurepip"
        return Tool("pip", problem="not there: managed toolchains can not be installed", remedy=remedy)
    return Tool("pip", version("pip"))


def _wasmtime() -> Tool:
    try:
        from wasmtime import Engine, WasmtimeError

        from engine.wasm.execution.config import Compiler, compile_config
    except (ImportError, OSError, RuntimeError) as error:
        return Tool("wasmtime", problem=f"can not be loaded: {error}", remedy=_reinstall())
    try:
        Engine(compile_config(Compiler.OPTIMIZING))
    except WasmtimeError as error:
        return Tool("wasmtime", version("wasmtime"), problem=f"does not start: {error}", remedy=_reinstall())
    return Tool("wasmtime", version("wasmtime"))


def _reinstall() -> str:
    return f"{sys.executable} -m pip install --force-reinstall wasmtime"


def _home(home: Home) -> Tool:
    try:
        cache = home.cache()
        with tempfile.TemporaryFile(dir=cache):
            room = shutil.disk_usage(cache).free // 1_000_000
    except SvcError as error:
        return Tool("SVC_HOME", path=str(home.root), problem=error.message, remedy=error.hint)
    except OSError as error:
        problem = f"can not be written: {error.strerror}"
        remedy = "set SVC_HOME to a folder that you can write"
        return Tool("SVC_HOME", path=str(home.root), problem=problem, remedy=remedy)
    if room < ROOM_MB:
        remedy = f"make room, or set SVC_HOME to a folder that has it (`{cache}` may be deleted)"
        return Tool("SVC_HOME", path=str(home.root), problem=f"only {room} MB free", remedy=remedy)
    return Tool("SVC_HOME", f"{room // 1000} GB free", str(home.root))
