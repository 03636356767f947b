import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = [sys.executable, "-m", "tests.doors.tables.full_disk"]
pytestmark = pytest.mark.slow


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_file_system_that_is_full_costs_no_row_that_was_acknowledged(tmp_path: Path) -> None:
    """The file system is a small one in memory, which a user of Linux may mount for one process alone."""
    mount = 'mount -t tmpfs -o size=4m full "$0" && exec "$@"'
    own = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    if run(*own, mount, tmp_path, "true").returncode != 0:
        pytest.skip("no file system can be mounted here")
    done = run(*own, mount, tmp_path, *PROGRAM, tmp_path / "shop")
    assert done.stdout.startswith("whole"), done.stdout + done.stderr
    assert "storage-full" in done.stdout


def test_a_file_that_may_not_grow_costs_no_row_that_was_acknowledged(tmp_path: Path) -> None:
    done = run(*PROGRAM, tmp_path / "shop", "limited")
    assert done.stdout.startswith("whole"), done.stdout + done.stderr
