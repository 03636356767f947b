"""The service without meters that `make bench-metering` compares with."""

import os
import subprocess
import sys
from pathlib import Path

from bench.unmetered import MEMORY


def test_everything_that_it_replaces_exists() -> None:
    command = [sys.executable, "-m", "bench.unmetered", "--version"]
    ended = subprocess.run(
        command,
        env={**os.environ, MEMORY: "1"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("svc ")
