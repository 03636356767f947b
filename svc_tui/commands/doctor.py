"""`svc doctor`: checks the prerequisites of svc itself, and the tools of each lane."""

import asyncio
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from engine.errors import SvcError
from engine.lane import Lane, Tool
from engine.manifest.load import find, load
from engine.manifest.problems import ManifestError
from svc_tui.commands.options import flag
from svc_tui.composition import lanes
from svc_tui.terminal import stderr
from svc_tui.terminal.stderr import ExitCode
from svc_tui.terminal.stdout import Answer, Styled
from svc_tui.user_home import Home

State = Literal["found", "managed", "installable", "missing"]
MIN_FREE_MIB = 1000
"""Space for the toolchains of all lanes and some compiled components."""


@dataclass(frozen=True, slots=True)
class Check:
    """A checked tool; `group` is `svc` or a lane. One that is `needed` fails if the tool is missing."""

    group: str
    tool: Tool
    needed: bool

    @property
    def state(self) -> State:
        """The state of the tool; the first build or `svc doctor --fix` installs an `installable` one."""
        if not self.tool.problem:
            return "managed" if self.tool.managed else "found"
        return "installable" if self.tool.managed else "missing"


async def run_checks(lanes_in_use: set[str] | None, home: Home, *, fix: bool) -> tuple[list[Check], bool]:
    """Return the checks, and whether every requested installation succeeded.

    `lanes_in_use` has the lanes of the project, or is None outside of one.
    """
    available, installed = lanes(), True
    try:
        if fix:
            installed = await _install(available, lanes_in_use, home.cache())
        python = Tool("python", platform.python_version(), path=sys.executable)
        missing, remedy = "not installed: svc cannot install toolchains", f"{sys.executable} -m ensurepip"
        has_pip = importlib.util.find_spec("pip") is not None
        pip = Tool("pip", version("pip")) if has_pip else Tool("pip", problem=missing, remedy=remedy)
        checks = [Check("svc", tool, needed=True) for tool in (python, pip, _wasmtime(), _home(home))]
        lane_tools = await asyncio.gather(*(lane.tools(home.root / "cache") for lane in available.values()))
    finally:
        await asyncio.gather(*(lane.aclose() for lane in available.values()))
    for name, tools in zip(available, lane_tools, strict=True):
        required = lanes_in_use is not None and name in lanes_in_use
        checks += [Check(name, tool, required) for tool in tools or (Tool(name, "nothing needed"),)]
    for name in sorted((lanes_in_use or set()) - set(available)):
        problem = f"this version of svc has no lane {name}"
        checks.append(Check(name, Tool(name, problem=problem, remedy="install a newer svc"), needed=True))
    return checks, installed


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


_STYLE = {"found": "green", "managed": "green", "installable": "yellow", "missing": "bold red"}


def doctor(
    fix: Annotated[bool, flag("Install missing toolchains that svc can install.", "--fix")] = False,
) -> Answer:
    """Check build prerequisites, and print the command that installs each missing one."""
    lanes_in_use: set[str] | None = None
    try:
        lanes_in_use = {resource.lane for resource in load(find(Path.cwd())).resources.values()}
    except ManifestError as error:
        hint = "Run `svc build` to list the mistakes."
        stderr.warn(f"{error.summary}: checking all lanes as not needed", hint)
    except SvcError as error:
        if error.code != "no-project":
            raise
    home = Home.from_environment(os.environ)
    checks, installed = asyncio.run(run_checks(lanes_in_use, home, fix=fix))
    ok = installed and not any(check.needed and check.state == "missing" for check in checks)
    rows: list[dict[str, str | bool]] = [
        {"group": check.group, "name": check.tool.name, "state": check.state}
        | {name: getattr(check.tool, name) for name in ("version", "path", "problem", "remedy")}
        | {"needed": check.needed}
        for check in checks
    ]
    return Answer(
        {"ok": ok, "checks": rows},
        _lines(checks, lanes_in_use),
        fields=(list(rows[0]), [list(row.values()) for row in rows]),
        code=ExitCode.OK if ok else ExitCode.FAILED,
    )


async def _install(available: Mapping[str, Lane], lanes_in_use: set[str] | None, cache: Path) -> bool:
    """Install the toolchains of the project's lanes, or of all lanes; return whether all succeeded."""
    installed = True
    for name, lane in available.items():
        if lanes_in_use is not None and name not in lanes_in_use:
            continue
        try:
            await lane.install(cache, lambda line, name=name: stderr.progress(f"{name}: {line}"))  # type: ignore[misc]
        except SvcError as error:
            stderr.render(error)
            installed = False
    return installed


def _lines(checks: list[Check], lanes_in_use: set[str] | None) -> list[Styled]:
    names = max(len(check.tool.name) for check in checks)
    versions = max(len(check.tool.version) for check in checks)
    group, lines = "", list[Styled]()
    for check in checks:
        tool = check.tool
        if check.group != group:
            group = check.group
            note = "  (not used by this project)" if lanes_in_use is not None and not check.needed else ""
            lines.append([("\n" if lines else "", ""), (group, "bold"), (note, "dim")])
        name, state = (f"  {tool.name:<{names}}  ", ""), (f"{check.state:<11}", _STYLE[check.state])
        place = (tool.problem or tool.path, "" if tool.problem else "dim")
        lines.append([name, state, (f"  {tool.version:<{versions}}  ", ""), place])
        if tool.remedy:
            lines.append([(f"  {'':<{names}}  → {tool.remedy}", "cyan")])
    return lines
