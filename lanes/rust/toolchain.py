"""Discovery of cargo, rustc and its std for the target. Installs nothing: rustup belongs to the user."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.lane import Tool, ToolchainMissing
from lanes.process import run
from lanes.rust.cargo import TARGET

MIN_VERSION = (1, 82)
"""The first Rust with a stable wasm32-wasip2."""
ANSWER_SECS = 30.0
ADD_TARGET = f"rustup target add {TARGET}"
UPDATE = "rustup update"
SET_DEFAULT = "rustup default stable"
_NO_DEFAULT = "rustup could not choose"
INSTALL = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
_OF_NO_EFFECT = {"RUST_BACKTRACE", "RUST_LOG", "CARGO_TERM_COLOR", "CARGO_TERM_QUIET", "CARGO_TARGET_DIR"}
_ERROR = re.compile(r"(?:error|fatal)(?:\[\w+\])?:", re.IGNORECASE)
_VERSION = re.compile(r"(?:cargo|rustc) (\d+)\.(\d+)\S*")


def program(name: str) -> str | None:
    """Return the path of `cargo` or `rustc`, from the environment or PATH."""
    return shutil.which(os.environ.get(name.upper()) or name)


def decisive() -> tuple[list[str | Path | None], dict[str, str]]:
    """Return the files and variables that decide which Rust compiles, behind rustup's proxies too."""
    home = Path.home()
    rustup = Path(os.environ.get("RUSTUP_HOME") or home / ".rustup")
    settings = Path(os.environ.get("CARGO_HOME") or home / ".cargo") / "config.toml"
    # rustup writes these when a toolchain or a target changes.
    components = sorted(rustup.glob("toolchains/*/lib/rustlib/components"))
    files = [program("cargo"), program("rustc"), settings, rustup / "settings.toml", *components]
    names = (name for name in os.environ if name.startswith(("CARGO", "RUST")))
    return files, {name: os.environ[name] for name in names if name not in _OF_NO_EFFECT}


async def tools(folder: Path) -> tuple[Tool, ...]:
    """Return the tools as found from `folder`, which can have a `rust-toolchain.toml`."""
    cargo, rustc = await asyncio.gather(_tool("cargo", folder), _tool("rustc", folder))
    return cargo, rustc, await _target(rustc, folder)


async def problem(folder: Path) -> ToolchainMissing | None:
    """Return the error for the first missing tool, if any."""
    missing = [tool for tool in await tools(folder) if tool.problem]
    if not missing:
        return None
    first = missing[0]
    return ToolchainMissing(f"the rust lane: {first.problem}", f"Run: {first.remedy}")


def error_line(output: str) -> str:
    """Return the line of a failed tool's output that has the reason: its first error, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return errors[0] if errors else lines[-1] if lines else "no output"


async def _tool(name: str, folder: Path) -> Tool:
    path = program(name)
    if path is None:
        return Tool(name, problem=f"{name} is not on PATH", remedy=INSTALL)
    status, output = await _run([path, "--version"], folder)
    match = _VERSION.search(output)
    if status != 0 or match is None:
        remedy = SET_DEFAULT if _NO_DEFAULT in output else UPDATE
        return Tool(name, path=path, problem=f"{path} does not work: {error_line(output)}", remedy=remedy)
    version = match.group().split(" ")[1]
    if (int(match[1]), int(match[2])) < MIN_VERSION:
        minimum = ".".join(str(number) for number in MIN_VERSION)
        problem = f"{name} {version} is too old: {TARGET} needs Rust {minimum} or newer"
        return Tool(name, version, path=path, problem=problem, remedy=UPDATE)
    return Tool(name, version, path=path)


async def _target(rustc: Tool, folder: Path) -> Tool:
    if rustc.problem:
        return Tool(TARGET, problem=f"{TARGET} comes with rustc: {rustc.problem}", remedy=rustc.remedy)
    status, output = await _run([rustc.path, "--print", "target-libdir", "--target", TARGET], folder)
    libraries = Path(output.strip().splitlines()[-1] if output.strip() else "")
    if status != 0 or not any(libraries.glob("libstd-*.rlib")):
        return Tool(TARGET, problem=f"rustc {rustc.version} has no {TARGET}", remedy=ADD_TARGET)
    return Tool(TARGET, rustc.version, path=str(libraries))


async def _run(command: Sequence[str], folder: Path) -> tuple[int, str]:
    try:
        async with asyncio.timeout(ANSWER_SECS):
            return await run(command, folder)
    except TimeoutError:
        return 1, f"no answer in {ANSWER_SECS:g} seconds"
    except OSError as error:
        return 1, error.strerror or str(error)
