"""Programs that fill the disk below them: one that is small and in memory, or files that may not grow."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def on_small_disk(program: str, folder: Path, name: str, megabytes: int) -> str:
    """Return what a module prints that is given `name` on a disk of its own, below `folder`.

    The file system is one in memory, which a user of Linux may mount for one process alone; skips elsewhere.
    """
    mount = f'mount -t tmpfs -o size={megabytes}m full "$0" && exec "$@"'
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(folder))
    if _run(*own, "true").returncode != 0:
        pytest.skip("no file system can be mounted here")
    return _whole(*own, sys.executable, "-m", program, str(folder / name))


def with_limited_files(program: str, path: Path) -> str:
    """Return what a module prints whose files may not grow."""
    return _whole(sys.executable, "-m", program, str(path), "limited")


def _whole(*command: str) -> str:
    process = _run(*command)
    assert process.stdout.startswith("whole"), process.stdout + process.stderr
    return process.stdout


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
