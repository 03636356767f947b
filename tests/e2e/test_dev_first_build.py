"""Requests to `svc dev` before the first build of a resource is ready."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.dev_server import Output
from tests.support.waiting import until

pytestmark = pytest.mark.slow

MANIFEST = """[project]
name = "a"
[resource.web]
lane = "static"
public = true
output = "dist"
build = "touch started; while test ! -e go; do sleep 0.05; done; mkdir -p dist; cp page.html dist/index.html"
"""
BROWSER = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose build waits until the file `go` exists."""
    folder = tmp_path / "süß und weit"
    folder.mkdir()
    (folder / "svc.toml").write_text(MANIFEST)
    (folder / ".gitignore").write_text("go\nstarted\n")
    (folder / "page.html").write_text("one")
    return folder


@contextlib.contextmanager
def started(project: Path, home: Path, *options: str) -> Iterator[str]:
    """Start `svc dev` and yield its URL once it accepts connections, before any build has finished."""
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0", *options]
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "SVC_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = Output()
    reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        line = output.wait_for(r"http://localhost:[1-9]\d*/")
        yield line[line.index("http:") :].partition("/ ")[0].rstrip("/")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(5)
        process.stdout.close()


def test_first_build_is_awaited_and_a_later_one_for_a_while(project: Path, home: Path) -> None:
    with started(project, home) as url:
        page = httpx.get(url, headers=BROWSER, timeout=60)
        assert page.status_code == 503
        assert "web is being built for the first time" in page.text
        assert "<meta http-equiv=refresh content=1>" in page.text
        assert waited(url, project) == (200, "one")
        assert httpx.get(url, headers=BROWSER, timeout=60).text == "one"
        for file in ("go", "started"):
            (project / file).unlink()
        (project / "page.html").write_text("two")
        until((project / "started").exists)
        assert httpx.get(url, timeout=60).text == "one"
        (project / "go").touch()
        until(lambda: httpx.get(url, timeout=60).text == "two")


def test_first_build_is_awaited_by_two_workers(project: Path, home: Path) -> None:
    with started(project, home, "--workers", "2") as url:
        assert waited(url, project) == (200, "one")


def waited(url: str, project: Path) -> tuple[int, str]:
    """Send a request, let the build end, and return the response."""
    threading.Timer(0.5, (project / "go").touch).start()
    answer = httpx.get(url, headers={"accept": "text/event-stream"}, timeout=60)
    return answer.status_code, answer.text


def test_failed_first_build_answers_waiting_requests(project: Path, home: Path) -> None:
    (project / "page.html").unlink()
    with started(project, home) as url:
        threading.Timer(0.5, (project / "go").touch).start()
        answer = httpx.get(url, timeout=60)
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith("the build command of resource web failed")


def test_edited_build_command_cancels_a_hung_build(project: Path, home: Path) -> None:
    manifest, file = project / "svc.toml", project / "started"
    head, tail = MANIFEST.split('"touch started; while test ! -e go; do sleep 0.05; done; ')
    manifest.write_text(f'{head}"echo $$ > started; exec sleep 333"\n')
    with started(project, home) as url:
        until(lambda: file.exists() and file.read_text() != "")
        hung = int(file.read_text())
        os.kill(hung, 0)
        manifest.write_text(f'{head}"{tail}')
        assert httpx.get(url, timeout=60).text == "one"
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)


def test_addresses_are_printed_before_the_first_builds_are_ready(project: Path, home: Path) -> None:
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=project,
        env={**os.environ, "SVC_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = Output()
        reader = threading.Thread(target=output.read, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            output.wait_for("http://localhost:", 60)
            output.wait_for("web--a.localhost:")
            until((project / "started").exists)
            assert not any("watching" in line or "ready" in line for line in output.lines)
            (project / "go").touch()
            output.wait_for("web ready in")
            output.wait_for("watching for changes")
        finally:
            process.terminate()
            reader.join(15)
