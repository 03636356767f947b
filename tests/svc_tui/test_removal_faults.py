"""A service that is killed while it removes a project has all or nothing of it afterwards."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import is_fuzzing

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.fuzz
def test_kill_between_steps_of_a_removal_leaves_the_project_or_nothing_of_it(tmp_path: Path) -> None:
    first, distance = ("1", "1") if is_fuzzing() else ("7", "3")
    command = [sys.executable, "-m", "tests.svc_tui.killed_removals", str(tmp_path), first, distance]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    match = re.fullmatch(r"kills=(\d+) whole=(\d+)\n", process.stdout)
    assert match, process.stdout + process.stderr
    assert int(match[1]) >= int(match[2]) + 3
