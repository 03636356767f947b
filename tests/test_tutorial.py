"""The tutorial: its commands run as written and print the output on the page."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import home
from tests.support.service import share_machine_code

pytestmark = [pytest.mark.slow(seconds=45), pytest.mark.timeout(900)]
__all__ = ["home"]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "get-started" / "tutorial.md"
BLOCK = re.compile(r"(?:^<!-- ([a-z]+)(?:: (\S+))? -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READY_SECONDS = 300.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def pattern(expected: str) -> re.Pattern[str]:
    """Return the pattern of an output: `…` is any text of a line; a line of only `…` is any lines."""
    lines = []
    for line in expected.splitlines(keepends=True):
        if line == "…\n":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*?".join(re.escape(part) for part in line.split("…")))
    return re.compile("".join(lines) + r"\Z")


class Terminal:
    """Runs the commands of the page in the project's folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        ports = {"3000": free_port(), "8080": free_port(), "8081": free_port()}
        dev, web, control = ports.values()
        self._replacements = {
            "$ svc dev": f"$ svc dev --port {dev}",
            "$ svc serve": f"$ svc serve --listen 127.0.0.1:{web} --control 127.0.0.1:{control}",
            ":3000": f":{dev}",
            ":8080": f":{web}",
            ":8081": f":{control}",
        }
        bin_folder = folder.parent / "bin"
        bin_folder.mkdir()
        (bin_folder / "svc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m svc_tui "$@"\n')
        (bin_folder / "svc").chmod(0o755)
        self._home = folder.parent / "home"
        self._home.mkdir()
        (self._home / "cache").symlink_to(home / "cache", target_is_directory=True)
        self._environ = os.environ | {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(PAGE.parents[2]),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            "SVC_HOME": str(self._home),
        }
        self.processes: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []

    def localized(self, text: str) -> str:
        for name, value in self._replacements.items():
            text = text.replace(name, value)
        return text

    def run(self, command: str) -> str:
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return ""
        process = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=READY_SECONDS,
            check=False,
        )
        return (
            process.stdout if process.stdout.endswith("\n") or not process.stdout else process.stdout + "\n"
        )

    def expect(self, command: str, expected: str) -> None:
        """Run a command until its output matches; only reads are repeated."""
        reads = ("curl -s http", "svc logs", "svc tables query 'select")
        repeatable = command.startswith(reads) and " -d " not in command
        end = time.monotonic() + READY_SECONDS
        while True:
            output = self.run(command)
            if pattern(expected).match(output):
                return
            assert repeatable and time.monotonic() < end, f"$ {command}\n{output}\nexpected:\n{expected}"
            time.sleep(0.5)

    def start(self, command: str, expected: str) -> None:
        """Start a command and wait until it has printed the expected lines."""
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        lines: list[str] = []
        output = process.stdout
        assert output is not None

        def read() -> None:
            with output:
                lines.extend(iter(output.readline, ""))

        self._readers.append(threading.Thread(target=read, daemon=True))
        self._readers[-1].start()
        matched = re.compile(pattern(expected).pattern.removesuffix(r"\Z"))
        end = time.monotonic() + READY_SECONDS
        while not (lines and matched.match("".join(lines))):
            assert process.poll() is None and time.monotonic() < end, "".join(lines)
            time.sleep(0.1)
        if command.startswith("svc serve"):
            share_machine_code(self._home / "data", self._home / "cache")

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        assert [process.wait(60) for process in self.processes] == [0] * len(self.processes)
        for thread in self._readers:
            thread.join()


@pytest.fixture
def terminal(tmp_path: Path, home: Path) -> Iterator[Terminal]:
    folder = tmp_path / "tutorial ü"
    folder.mkdir()
    terminal = Terminal(folder, home)
    yield terminal
    for process in terminal.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_tutorial_commands_print_the_documented_output(terminal: Terminal) -> None:
    for note, path, language, text in BLOCK.findall(terminal.localized(PAGE.read_text(encoding="utf-8"))):
        if note == "file":
            (terminal.folder / path).write_text(text, encoding="utf-8")
        elif language == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                if note == "background":
                    terminal.start(command, output)
                else:
                    terminal.expect(command, output)
    terminal.stop()
