"""Requests to `svc dev` before the first build of a Resource is ready."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.slow

MANIFEST = """[project]
name = "a"
[resource.web]
lane = "static"
public = true
output = "dist"
build = "while test ! -e go; do sleep 0.05; done; mkdir -p dist; cp page.html dist/index.html"
"""
BROWSER = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Project whose build waits until the file `go` exists."""
    folder = tmp_path / "süß und weit"
    folder.mkdir()
    (folder / "svc.toml").write_text(MANIFEST)
    (folder / ".gitignore").write_text("go\n")
    (folder / "page.html").write_text("one")
    return folder


@contextlib.contextmanager
def started(project: Path, home: Path, *options: str) -> Iterator[str]:
    """Start `svc dev` and yield its URL once it accepts connections, before any build has finished."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", str(port), *options]
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "SVC_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.ConnectError, httpx.RemoteProtocolError):
                httpx.get(f"http://localhost:{port}/", headers=BROWSER, timeout=60)
                break
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        yield f"http://localhost:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("options", [[], ["--workers", "2"]], ids=["one process", "two workers"])
def test_request_before_the_first_build_waits_for_it(project: Path, home: Path, options: list[str]) -> None:
    with started(project, home, *options) as url:
        threading.Timer(1.0, (project / "go").touch).start()
        answer = httpx.get(url, headers={"accept": "text/event-stream"}, timeout=40)
        assert (answer.status_code, answer.text) == (200, "one")


def test_browser_before_the_first_build_gets_a_page_that_reloads_itself(project: Path, home: Path) -> None:
    with started(project, home) as url:
        page = httpx.get(url, headers=BROWSER, timeout=10)
        assert page.status_code == 503
        assert "web is being built for the first time" in page.text
        assert "<meta http-equiv=refresh content=1>" in page.text
        (project / "go").touch()
        assert httpx.get(url, headers=BROWSER, timeout=10).text == "one"


def test_failed_first_build_answers_waiting_requests(project: Path, home: Path) -> None:
    (project / "page.html").unlink()
    with started(project, home) as url:
        threading.Timer(0.5, (project / "go").touch).start()
        answer = httpx.get(url, timeout=40)
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith("the build command of resource web failed")


def test_rebuild_in_progress_keeps_the_old_version_serving(project: Path, home: Path) -> None:
    with started(project, home) as url:
        (project / "go").touch()
        assert httpx.get(url, timeout=40).text == "one"
        (project / "go").unlink()
        (project / "page.html").write_text("two")
        time.sleep(0.5)
        assert httpx.get(url, timeout=1).text == "one"
        (project / "go").touch()
        end = time.monotonic() + 20
        while httpx.get(url, timeout=5).text != "two":
            assert time.monotonic() < end
            time.sleep(0.05)
