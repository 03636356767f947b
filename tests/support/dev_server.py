"""Runs `svc dev` as a user does: a process of its own, in the project folder, stopped by a signal."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

START_SECONDS = 170
SHOW_SECONDS = 60


@dataclass
class Output:
    """Printed lines so far. Other threads wait for more."""

    lines: list[str] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def read(self, stream: Iterable[str]) -> None:
        """Add the lines of a stream until it ends."""
        for line in stream:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.lines.append("(ended)")
            self._news.notify_all()

    def wait_for(self, pattern: str, seconds: float = SHOW_SECONDS, after: int = 0) -> str:
        """Return the first line, from line `after` on, that the pattern is found in."""
        end = time.monotonic() + seconds
        with self._news:
            while True:
                result = next((line for line in self.lines[after:] if re.search(pattern, line)), None)
                if result is not None:
                    return result
                remaining = end - time.monotonic()
                if remaining <= 0 or self.lines[-1:] == ["(ended)"]:
                    raise AssertionError(f"{pattern!r} was not printed:\n" + "\n".join(self.lines[-60:]))
                self._news.wait(remaining)


@dataclass(kw_only=True)
class DevServer(Output):
    """A running `svc dev`; `lines` are those of both streams."""

    process: subprocess.Popen[str]
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def authority(self) -> str:
        return f"localhost:{self.port}"

    def request(self, method: str, path: str, **more: object) -> httpx.Response:
        return httpx.request(method, self.url + path, timeout=SHOW_SECONDS, **more)  # type: ignore[arg-type]

    def stream(self, path: str, **headers: str) -> AbstractContextManager[httpx.Response]:
        return httpx.stream("GET", self.url + path, headers=headers, timeout=SHOW_SECONDS)

    def get(self, path: str, **more: object) -> httpx.Response:
        return httpx.get(self.url + path, timeout=SHOW_SECONDS, **more)  # type: ignore[arg-type]

    def until(self, path: str, holds: Callable[[httpx.Response], bool]) -> httpx.Response:
        """Ask until the answer holds."""
        end = time.monotonic() + SHOW_SECONDS
        while not holds(answer := self.get(path)):
            assert time.monotonic() < end, f"{path} still answers {answer.status_code} {answer.text[:500]}"
        return answer

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SHOW_SECONDS)


def save(path: Path, text: str) -> None:
    """Write a file in one step: a server would read the empty file of a save in two steps, too."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved"
        saved.write_text(text)
        saved.replace(path)


@contextlib.contextmanager
def serving(command: list[str], folder: Path, environ: Mapping[str, str]) -> Iterator[DevServer]:
    """Run a command that ends up as `svc dev`, and wait until it serves. It leads a process group."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    server = DevServer(process=process)
    reader = threading.Thread(target=server.read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        line = server.wait_for(r"http://localhost:[1-9]\d*/", START_SECONDS)
        server.port = int(line.partition("http://localhost:")[2].partition("/")[0])
        server.wait_for("watching for changes", START_SECONDS)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(5)
        process.stdout.close()


@contextlib.contextmanager
def dev_server(project: Path, home: Path, *options: str) -> Iterator[DevServer]:
    """Start `svc dev` on a free port and wait until it serves."""
    command = [sys.executable, "-m", "svc_tui", "dev", "--port", "0", *options]
    with serving(command, project, {"SVC_HOME": str(home)}) as server:
        yield server
