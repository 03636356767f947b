"""Packages of npm for tests."""

import asyncio
import fcntl
import json
import subprocess
from pathlib import Path

import pytest

from lanes.js.toolchain import NodeProgram, ensure, find


def node_modules(cache: Path, *packages: str) -> Path:
    """Return a folder with packages such as `hono@4`, installed once. Skip the test if npm fails."""
    folder = cache / f"npm-{packages[0].rpartition('@')[0].replace('/', '-').strip('@')}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(cache, folder, packages)
    return folder / "node_modules"


def _install(cache: Path, folder: Path, packages: tuple[str, ...]) -> None:
    manifest = folder / "installed.json"
    if manifest.is_file() and json.loads(manifest.read_text()) == list(packages):
        return
    (folder / "package.json").write_text("{}")
    asyncio.run(ensure(cache, print))
    node = asyncio.run(find(cache))
    assert isinstance(node, NodeProgram)
    command = [*node.npm, "install", "--no-audit", "--no-fund", *packages]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if process.returncode:
        pytest.skip(f"npm cannot install {' '.join(packages)}: {process.stderr[-300:]}")
    manifest.write_text(json.dumps(packages))
