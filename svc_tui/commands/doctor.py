"""`svc doctor`."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.lane import Lane
from engine.manifest.load import find, load
from engine.manifest.problems import ManifestError
from svc_tui.commands.options import AsJson
from svc_tui.composition import lanes
from svc_tui.project.doctor import Check, run_checks
from svc_tui.terminal import stderr, stdout
from svc_tui.terminal.stderr import ExitCode
from svc_tui.user_home import Home

_STYLE = {"found": "green", "managed": "green", "installable": "yellow", "missing": "bold red"}


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Install missing toolchains that svc can install.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Check build prerequisites, and print the command that installs each missing one."""
    lanes_in_use = _project_lanes()
    home = Home.from_environment(os.environ)
    checks, installed = asyncio.run(_run_checks(lanes_in_use, home, fix=fix))
    ok = installed and not any(check.failed for check in checks)
    if as_json:
        stdout.data({"ok": ok, "checks": [_document(check) for check in checks]})
    elif stdout.is_terminal():
        _table(checks, lanes_in_use)
    else:
        rows = [_document(check) for check in checks]
        stdout.fields(list(rows[0]), [list(row.values()) for row in rows])
    return ExitCode.OK if ok else ExitCode.FAILED


def _project_lanes() -> set[str] | None:
    """Return the lanes of the current project; None outside of one or if its manifest is invalid."""
    try:
        return {resource.lane for resource in load(find(Path.cwd())).resources.values()}
    except ManifestError as error:
        stderr.warn(
            f"{error.summary}: checking all lanes as not needed", "Run `svc build` to list the mistakes."
        )
    except SvcError as error:
        if error.code != "no-project":
            raise
    return None


async def _run_checks(lanes_in_use: set[str] | None, home: Home, *, fix: bool) -> tuple[list[Check], bool]:
    """Return the checks, and whether every requested installation succeeded."""
    available = lanes()
    installed = True
    try:
        if fix:
            installed = await _install(available, lanes_in_use, home.cache())
        return await run_checks(available, lanes_in_use, home), installed
    finally:
        await asyncio.gather(*(lane.aclose() for lane in available.values()))


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


def _document(check: Check) -> dict[str, str | bool]:
    """Return the fields of a check, in column order."""
    tool = check.tool
    return {
        "group": check.group,
        "name": tool.name,
        "state": check.state,
        "version": tool.version,
        "path": tool.path,
        "problem": tool.problem,
        "remedy": tool.remedy,
        "needed": check.needed,
    }


def _table(checks: list[Check], lanes_in_use: set[str] | None) -> None:
    names = max(len(check.tool.name) for check in checks)
    versions = max(len(check.tool.version) for check in checks)
    group = ""
    for check in checks:
        tool = check.tool
        if check.group != group:
            group = check.group
            note = "  (not used by this project)" if lanes_in_use is not None and not check.needed else ""
            stdout.styled([("" if check is checks[0] else "\n", ""), (group, "bold"), (note, "dim")])
        stdout.styled(
            [
                (f"  {tool.name:<{names}}  ", ""),
                (f"{check.state:<11}", _STYLE[check.state]),
                (f"  {tool.version:<{versions}}  ", ""),
                (tool.problem or tool.path, "" if tool.problem else "dim"),
            ]
        )
        if tool.remedy:
            stdout.styled([(f"  {'':<{names}}  → {tool.remedy}", "cyan")])
