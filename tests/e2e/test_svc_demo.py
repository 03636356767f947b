"""`svc demo` as a user runs it: without a terminal, in one, and ended by signals at any time."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.dev_server import Output
from tests.support.terminal import terminal
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


class Demo(Output):
    """A running `svc demo`."""

    process: subprocess.Popen[str]


@contextmanager
def demo(temporary: Path, home: Path, *words: str) -> Iterator[Demo]:
    """Run `svc demo`, whose temporary files are in `temporary`."""
    temporary.mkdir()
    environ = os.environ | {"TMPDIR": str(temporary), "SVC_HOME": str(home)}
    command = [sys.executable, "-m", "svc_tui", "demo", *words]
    with subprocess.Popen(
        command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        shown = Demo()
        shown.process = process
        assert process.stdout is not None
        reading = threading.Thread(target=shown.read, args=(process.stdout,))
        reading.start()
        try:
            yield shown
        finally:
            process.kill()
            reading.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_demo_serves_made_up_requests_and_leaves_nothing_behind(
    tmp_path: Path, home: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "tmp ü"
    with demo(temporary, home, "--port", "0") as shown:
        assert "http://localhost:" in shown.wait_for("notes  http", 170)
        shown.wait_for("POST.*/api/notes.*201", 170)
        assert files(temporary) != []
        shown.process.send_signal(number)
        assert shown.process.wait(60) == 0
        assert files(temporary) == []
        assert not any("Traceback" in line for line in shown.lines)


def test_demo_ended_before_it_serves_leaves_nothing_behind(tmp_path: Path, home: Path) -> None:
    temporary = tmp_path / "tmp"
    with demo(temporary, home, "--port", "0") as shown:
        while not files(temporary):
            threading.Event().wait(0.01)
        shown.process.send_signal(signal.SIGHUP)
        shown.process.send_signal(signal.SIGTERM)
        assert shown.process.wait(60) in (0, 128 + signal.SIGHUP, 128 + signal.SIGTERM)
        assert files(temporary) == []


def test_demo_on_a_used_port_fails_with_a_hint_and_leaves_nothing_behind(tmp_path: Path, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        with demo(tmp_path / "tmp", home, "--port", port) as shown:
            shown.wait_for("is in use", 170)
            assert shown.process.wait(60) == 1
    assert files(tmp_path / "tmp") == []


@pytest.mark.parametrize("closed", [False, True])
def test_demo_in_a_terminal_opens_the_console_and_leaves_nothing_behind(
    tmp_path: Path, home: Path, closed: bool
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ = {"TMPDIR": str(temporary), "SVC_HOME": str(home)}
    with terminal([sys.executable, "-m", "svc_tui", "demo", "--port", "0"], tmp_path, environ) as console:
        console.until("● live", 170)
        console.keys("3")
        console.until("/api/notes", 170)
        if not closed:
            console.keys("q")
            console.restored()
            assert files(temporary) == []
    until(lambda: files(temporary) == [])
