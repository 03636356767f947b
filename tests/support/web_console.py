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
        answer = httpx.get(key, timeout=60)
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


class PageConnection:
    """The connection of a page: the stream of its terminal, and requests with its input."""

    def __init__(self, url: str, cookie: str, origin: str | None = None) -> None:
        """`url` is that of the page, without a final slash."""
        self._url = url
        self._client = httpx.Client(
            timeout=SECONDS, headers={"Cookie": cookie, "Origin": origin or _origin(url)}
        )
        self._stack = contextlib.ExitStack()
        self._rest = b""

    def __enter__(self) -> "PageConnection":
        self._stack.callback(self._client.close)
        size = {"width": 100, "height": 30}
        self.response = self._stack.enter_context(
            self._client.stream("POST", f"{self._url}/stream", json=size)
        )
        self._parts = self.response.iter_raw()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def send(self, *message: object) -> httpx.Response:
        """Send a message of the page."""
        page = self.response.headers["x-svc-page"]
        return self._client.post(f"{self._url}/input/{page}", content=json.dumps(message))

    def frame(self) -> bytes | None:
        """Return the data of the next frame, or None at the end."""
        while len(self._rest) < 5 or len(self._rest) < 5 + int.from_bytes(self._rest[1:5], "big"):
            try:
                self._rest += next(self._parts)
            except (StopIteration, httpx.RemoteProtocolError):
                return None
        end = 5 + int.from_bytes(self._rest[1:5], "big")
        data, self._rest = self._rest[5:end], self._rest[end:]
        return data

    def text_to_end(self) -> str:
        """Return the rest of the stream as text."""
        return b"".join(iter(self.frame, None)).decode("utf-8", "replace")


def _origin(url: str) -> str:
    return "/".join(url.split("/")[:3])


def socket(web: Web, cookie: str, origin: str | None = None) -> PageConnection:
    """Open the connection of a page."""
    return PageConnection(web.url, cookie, origin)


def send(connection: PageConnection, keys: str) -> None:
    """Send keys from the page, which splits long ones."""
    for at in range(0, len(keys), 65536):
        assert connection.send("stdin", keys[at : at + 65536]).status_code == 204


def read_until(connection: PageConnection, text: str) -> str:
    """Return the output of the page up to and including a text."""
    observed, end = "", time.monotonic() + SECONDS
    while text not in observed:
        data = connection.frame()
        assert data is not None, observed
        assert time.monotonic() < end, observed
        observed += data.decode("utf-8", "replace")
    return observed
