"""`svc console --web` as a process, with a WebSocket client for its page."""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from websockets.sync.client import ClientConnection, connect

SECONDS = 60.0


class Web:
    """A running `svc console --web`. `lines` is its stdout: one address per key."""

    def __init__(self, folder: Path, home: Path, *options: str, **environ: str) -> None:
        command = [sys.executable, "-m", "svc_tui", "console", "--web", "--web-port", "0", *options]
        self.process = subprocess.Popen(
            [*command, "--port", "0"],
            cwd=folder,
            env={**os.environ, "SVC_HOME": str(home), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self.lines.append(line.strip())
                    self._news.notify_all()

    def address(self) -> str:
        """Return the last printed address with a key."""
        with self._news:
            assert self._news.wait_for(lambda: self.lines, SECONDS), self.errors()
        return self.lines[-1]

    def wait_for_key(self, used: str) -> None:
        """Wait until a key after this one is printed."""
        with self._news:
            assert self._news.wait_for(lambda: self.lines[-1] != used, SECONDS), self.lines

    @property
    def url(self) -> str:
        return self.address().partition("/?")[0]

    def errors(self) -> str:
        self.process.kill()
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def entered(self) -> str:
        """Exchange the last key and return the Cookie header."""
        key = self.address()
        answer = httpx.get(key)
        assert answer.status_code == 303
        self.wait_for_key(key)
        return answer.headers["set-cookie"].partition(";")[0]

    def sessions(self) -> list[int]:
        """Return the processes started by the server."""
        parent = self.process.pid
        return [
            int(folder.name)
            for folder in Path("/proc").glob("[0-9]*")
            if (status := _status(folder)) and re.search(rf"^PPid:\t{parent}$", status, re.MULTILINE)
        ]


def _status(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return (folder / "status").read_text()
    return ""


def wait_for_exit(process: int) -> None:
    """Wait until a process has exited."""
    end = time.monotonic() + SECONDS
    while _status(Path(f"/proc/{process}")) and "\nState:\tZ" not in _status(Path(f"/proc/{process}")):
        assert time.monotonic() < end, f"{process} still runs"
        time.sleep(0.02)


@contextlib.contextmanager
def web_console(folder: Path, home: Path, *options: str, **environ: str) -> Iterator[Web]:
    """Start the web Console of a folder, or with other options."""
    running = Web(folder, home, *options, **environ)
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.process.terminate()
        running.process.wait(SECONDS)
        running.reader.join(SECONDS)
        assert running.process.stderr is not None
        running.process.stderr.close()


def socket(web: Web, cookie: str, origin: str | None = None) -> connect:
    """Open the WebSocket of the page."""
    url = f"{web.url.replace('http', 'ws')}/ws?width=100&height=30"
    return connect(
        url,
        additional_headers={"Cookie": cookie},
        origin=web.url if origin is None else origin,
        max_size=None,
        proxy=None,
    )


def send(connection: ClientConnection, keys: str) -> None:
    """Send keys from the page."""
    connection.send(json.dumps(["stdin", keys]))


def read_until(connection: ClientConnection, text: str) -> str:
    """Return the output of the page up to and including a text."""
    observed = ""
    while text not in observed:
        data = connection.recv(SECONDS)
        observed += data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    return observed
