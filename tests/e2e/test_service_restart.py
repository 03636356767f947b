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

from tests.e2e import test_service as hosting
from tests.e2e.test_service import PASSWORD, run, svc
from tests.engine.wasm.text_guest import component

pytestmark = pytest.mark.slow
environ, project = hosting.environ, hosting.project
LAUNCH = """
import fcntl, os, sys
count = int(sys.argv[1])
kept = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[2 : 2 + count]]
for place, number in enumerate(kept):
    os.dup2(number, 3 + place)
os.environ |= {"LISTEN_FDS": str(count), "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2 + count], sys.argv[2 + count :])
"""
"""Hands over sockets as sd_listen_fds(3) has it, and becomes the program."""
PROJECTS = ("shop", "other")
RESTARTS = 3
SECONDS = 60


class Supervisor:
    """Holds two listening sockets and a notification socket."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2)]
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.heard.bind(str(folder / "notify"))
        self.heard.settimeout(SECONDS)
        self.environ = environ | {"NOTIFY_SOCKET": str(folder / "notify")}
        self.addresses = [f"127.0.0.1:{opened.getsockname()[1]}" for opened in self.sockets]
        self.folder = folder

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a service, and do not wait until it serves."""
        numbers = [opened.fileno() for opened in self.sockets]
        where = ("--listen", self.addresses[0], "--control", self.addresses[1])
        command = [*svc(), "serve", "--data", str(self.folder / "data"), *where, *options]
        with (self.folder / "said").open("a") as said:
            return subprocess.Popen(
                [sys.executable, "-c", LAUNCH, str(len(numbers)), *map(str, numbers), *command],
                env=self.environ,
                pass_fds=numbers,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    def said(self) -> str:
        """Return what services wrote into their log."""
        return (self.folder / "said").read_text()

    def state(self) -> str:
        """Wait for the next state notification of the service."""
        return self.heard.recv(256).decode()

    def close(self) -> None:
        for opened in (*self.sockets, self.heard):
            opened.close()


@pytest.fixture
def supervisor(tmp_path: Path, environ: dict[str, str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path, environ)
    yield supervisor
    supervisor.close()


@contextlib.contextmanager
def ended(service: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a service that is left, whatever happened."""
    try:
        yield
    finally:
        if service.poll() is None:
            service.kill()
        service.wait()


def deploy(supervisor: Supervisor, project: Path, environ: dict[str, str]) -> None:
    code = supervisor.said().partition("with the code ")[2].split('"')[0]
    login = (
        "login",
        f"http://{supervisor.addresses[1]}",
        "--user",
        "ann",
        "--claim",
        code,
        "--password-stdin",
    )
    done = run(project, environ, *login, text=PASSWORD)
    assert done.returncode == 0, done.stderr
    manifest = (project / "svc.toml").read_text()
    for name in PROJECTS:
        (project / "svc.toml").write_text(manifest.replace("shop", name))
        done = run(project, environ, "deploy")
        assert done.returncode == 0, done.stderr


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
        """Wait until so many more requests were answered."""
        wanted = self.answers + count
        async with self.changed:
            await self.changed.wait_for(lambda: self.answers >= wanted)

    async def client(self, project: str, over: asyncio.Event, *, keeps: bool) -> None:
        while not over.is_set():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            asked = 0
            try:
                while await self.ask(project, reader, writer) and keeps and not over.is_set():
                    asked += 1
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                # Closed between two requests: clients then retry (RFC 9112 9.3.1).
                if not asked or getattr(error, "partial", b""):
                    raise
            finally:
                writer.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_restarts_under_load_refuse_nobody_and_lose_nothing(
    workers: str, supervisor: Supervisor, project: Path, environ: dict[str, str]
) -> None:
    async def under_load(service: subprocess.Popen[bytes]) -> int:
        load = Load(supervisor.sockets[0].getsockname()[1])
        over = asyncio.Event()
        asked = [(name, keeps) for name in PROJECTS for keeps in (False, True)] * 2
        clients = [asyncio.create_task(load.client(name, over, keeps=keeps)) for name, keeps in asked]
        try:
            for _ in range(RESTARTS):
                await asyncio.wait_for(load.more(100), SECONDS)
                service.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(supervisor.state) == "STOPPING=1"
                assert await asyncio.to_thread(service.wait, SECONDS) == 0
                service = supervisor.start("--workers", workers)
                assert await asyncio.to_thread(supervisor.state) == "READY=1"
            over.set()
            await asyncio.wait_for(asyncio.gather(*clients), SECONDS)
            service.terminate()
            assert service.wait(SECONDS) == 0
        finally:
            with ended(service):
                for client in clients:
                    client.cancel()
                await asyncio.gather(*clients, return_exceptions=True)
        return load.answers

    first = supervisor.start("--workers", workers)
    with ended(first):
        assert supervisor.state() == "READY=1"
        deploy(supervisor, project, environ)
        assert asyncio.run(under_load(first)) > 100 * RESTARTS


@pytest.mark.parametrize("workers", ["1", "2"])
def test_guests_go_on_while_the_service_stops(
    workers: str, supervisor: Supervisor, project: Path, environ: dict[str, str]
) -> None:
    resource = '\n[resource.api]\nlane = "rust"\npublic = true\nbuild = "cp made.bin api.wasm"\n'
    with (project / "svc.toml").open("a") as manifest:
        manifest.write(f'{resource}output = "api.wasm"\n')
    (project / "made.bin").write_bytes(component())
    service = supervisor.start("--workers", workers, "--grace", "600")
    with ended(service):
        assert supervisor.state() == "READY=1"
        deploy(supervisor, project, environ)
        with socket.create_connection(supervisor.sockets[0].getsockname(), SECONDS) as client:
            client.sendall(b"GET /k10 HTTP/1.1\r\nhost: api--shop.localhost\r\n\r\n")
            answer = client.makefile("rb")
            for more in (1, 20):
                while more:
                    line = answer.readline()
                    assert line, "the answer was cut"
                    more -= b"hello" in line
                service.terminate()
            answer.close()
        assert service.wait(SECONDS) == 0


def test_a_socket_that_no_option_names_is_refused(supervisor: Supervisor) -> None:
    service = supervisor.start("--listen", "127.0.0.1:1")
    with ended(service):
        assert service.wait(SECONDS) == 2
    said = supervisor.said()
    assert supervisor.addresses[0] in said and "ListenStream=" in said and "Traceback" not in said


def test_sockets_that_are_meant_for_another_process_are_left_alone(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    meant = {"LISTEN_FDS": "2", "LISTEN_PID": str(os.getpid())}
    server = hosting.Server(tmp_path / "data", environ | meant)
    assert server.get().status_code == 404
    assert server.stop() == 0
