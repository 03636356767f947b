"""`make demo` in a fresh clone."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import serving

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SECOND_START_SECONDS = 60


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of the repository, and nothing else, in a path with a space and an umlaut."""
    folder = tmp_path / "fresh clone ü"
    process = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, process.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def test_make_demo_serves_pulse_from_a_clean_clone(clone: Path, home: Path, path_without_node: str) -> None:
    command = ["make", "demo", "PORT=0"]
    environ = {"SVC_HOME": str(home), "MAKEFLAGS": "", "PATH": path_without_node}
    environ["PIP_COMPILE"] = "0"  # Most modules of the dependencies are not imported here.
    with serving(command, clone, environ) as server:
        assert any("installing svc" in line for line in server.lines)
        assert "<title>Pulse</title>" in server.get("/").text
        answer = server.get("/api/now")
        assert answer.status_code == 200, "\n".join([answer.text, *server.lines])
        with httpx.stream("GET", server.url + "/api/events", timeout=60) as events:
            assert next(line for line in events.iter_lines() if line.startswith("data: "))
        os.killpg(server.process.pid, signal.SIGINT)
        server.wait_for(r"\(ended\)")
    assert not any("Traceback" in line for line in server.lines)
    began = time.monotonic()
    with serving(command, clone, environ) as server:
        assert time.monotonic() - began < SECOND_START_SECONDS
        assert not any("installing" in line for line in server.lines)


def test_make_with_an_old_python_fails_with_a_hint(clone: Path) -> None:
    old = clone / "old python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "install", f"PYTHON={old}"]
    environ = {**os.environ, "MAKEFLAGS": ""}
    process = subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True, check=False)
    assert process.returncode != 0
    assert "Python 3.11 or newer is required" in process.stderr and "Python 3.8.1" in process.stderr
    assert "hint: make PYTHON=" in process.stderr
