"""`svc serve` with sockets from its parent, as under systemd: restarts without a failed request."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engine.wasm.text_guest import component
from tests.support.service import PASSWORD, Server, environ_of, prepare, static_project, svc

pytestmark = pytest.mark.slow
LAUNCH = """
import fcntl, os, sys
count = int(sys.argv[1])
kept = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[2 : 2 + count]]
for place, number in enumerate(kept):
    os.dup2(number, 3 + place)
os.environ |= {"LISTEN_FDS": str(count), "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2 + count], sys.argv[2 + count :])
"""
"""Passes sockets as sd_listen_fds(3) describes, and becomes the program."""
PROJECTS = ("shop", "other")
API = """
[resource.api]
lane = "rust"
public = true
build = "cp made.bin api.wasm"
output = "api.wasm"
"""
RESTARTS = 3
SECONDS = 60


class Supervisor:
    """Holds two listening sockets and a notification socket."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2)]
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(str(folder / "notify"))
        self.notifications.settimeout(SECONDS)
        self.environ = environ | {"NOTIFY_SOCKET": str(folder / "notify")}
        self.addresses = [f"127.0.0.1:{opened.getsockname()[1]}" for opened in self.sockets]
        self.folder = folder

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a service without waiting until it serves."""
        numbers = [opened.fileno() for opened in self.sockets]
        where = ("--listen", self.addresses[0], "--control", self.addresses[1])
        command = [*svc(), "serve", "--data", str(self.folder / "data"), *where, *options]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-c", LAUNCH, str(len(numbers)), *map(str, numbers), *command],
                env=self.environ,
                pass_fds=numbers,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def printed(self) -> str:
        """Return the log of all starts."""
        return (self.folder / "log").read_text()

    def state(self) -> str:
        """Wait for the next state notification of the service."""
        return self.notifications.recv(256).decode()

    def close(self) -> None:
        for opened in (*self.sockets, self.notifications):
            opened.close()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home ü")


@pytest.fixture
def supervisor(tmp_path: Path, environ: dict[str, str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path, environ)
    yield supervisor
    supervisor.close()


@contextlib.contextmanager
def ended(service: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a service that is still running."""
    try:
        yield
    finally:
        if service.poll() is None:
            service.kill()
        service.wait()


def deploy(supervisor: Supervisor, folder: Path) -> None:
    """Claim the service and deploy two projects; one has a guest besides its page."""
    code = supervisor.printed().partition("with the code ")[2].split('"')[0]
    claim = ("--user", "ann", "--claim", code, "--password-stdin")
    url = f"http://{supervisor.addresses[1]}"
    prepare(folder, supervisor.environ, "login", url, *claim, text=PASSWORD)
    shop, other = (static_project(folder / name, name) for name in PROJECTS)
    with (shop / "svc.toml").open("a") as manifest:
        manifest.write(API)
    (shop / "made.bin").write_bytes(component())
    for project in (shop, other):
        prepare(project, supervisor.environ, "deploy")


@dataclass(slots=True)
class Load:
    """Clients that send requests without a pause, on new and on persistent connections."""

    port: int
    answers: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def ask(self, project: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one request; return whether the connection stays open. Raises without a complete response."""
        writer.write(b"GET / HTTP/1.1\r\nhost: web--%s.localhost\r\n\r\n" % project.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        size = int(head.partition(b"content-length: ")[2].split(b"\r")[0])
        assert await reader.readexactly(size) == b"one"
        async with self.changed:
            self.answers += 1
            self.changed.notify_all()
        return b"connection: close" not in head

    async def more(self, count: int) -> None:
        """Wait until this many more requests have been answered."""
        expected = self.answers + count
        async with self.changed:
            await self.changed.wait_for(lambda: self.answers >= expected)

    async def client(self, project: str, finished: asyncio.Event, *, holds: bool) -> None:
        while not finished.is_set():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            asked = 0
            try:
                while await self.ask(project, reader, writer) and holds and not finished.is_set():
                    asked += 1
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                # Closed between two requests: clients then retry (RFC 9112 9.3.1).
                if not asked or getattr(error, "partial", b""):
                    raise
            finally:
                writer.close()


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.nightly), "2"])
def test_restart_completes_every_request_and_stream(
    workers: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    options = ("--workers", workers, "--grace", "600")

    async def under_load(service: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
        """Restart the service while clients send requests; return the process of the last start."""
        load = Load(supervisor.sockets[0].getsockname()[1])
        stop = asyncio.Event()
        kinds = [(name, holds) for name in PROJECTS for holds in (False, True)] * 2
        clients = [asyncio.create_task(load.client(name, stop, holds=holds)) for name, holds in kinds]
        try:
            for _ in range(RESTARTS):
                await asyncio.wait_for(load.more(100), SECONDS)
                service.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(supervisor.state) == "STOPPING=1"
                assert await asyncio.to_thread(service.wait, SECONDS) == 0
                service = supervisor.start(*options)
                assert await asyncio.to_thread(supervisor.state) == "READY=1"
            stop.set()
            await asyncio.wait_for(asyncio.gather(*clients), SECONDS)
        except BaseException:
            with ended(service):
                raise
        finally:
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
        assert load.answers > 100 * RESTARTS
        return service

    first = supervisor.start(*options)
    with ended(first):
        assert supervisor.state() == "READY=1"
        deploy(supervisor, tmp_path)
        last = asyncio.run(under_load(first))
    with ended(last):
        streams_until_the_client_leaves(last, supervisor.sockets[0].getsockname())
        assert last.wait(SECONDS) == 0


def streams_until_the_client_leaves(service: "subprocess.Popen[bytes]", address: tuple[str, int]) -> None:
    """Read a stream, stop the service, and read more of the stream."""
    with socket.create_connection(address, SECONDS) as client:
        client.sendall(b"GET /k10 HTTP/1.1\r\nhost: api--shop.localhost\r\n\r\n")
        answer = client.makefile("rb")
        for more in (1, 20):
            while more:
                line = answer.readline()
                assert line, "the response was cut"
                more -= b"hello" in line
            service.terminate()
        answer.close()


def test_serve_with_a_socket_of_no_option_fails(supervisor: Supervisor) -> None:
    service = supervisor.start("--listen", "127.0.0.1:1")
    with ended(service):
        assert service.wait(SECONDS) == 2
    printed = supervisor.printed()
    assert supervisor.addresses[0] in printed and "ListenStream=" in printed and "Traceback" not in printed


def test_sockets_for_another_process_are_not_used(tmp_path: Path, environ: dict[str, str]) -> None:
    other = {"LISTEN_FDS": "2", "LISTEN_PID": str(os.getpid())}
    server = Server(tmp_path / "data", environ | other)
    assert server.get().status_code == 404
    assert server.stop() == 0
