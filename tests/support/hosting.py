"""Hosts of a sample application for its end-to-end tests: `svc dev`, and a fleet of services."""

import itertools
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx

from engine.manifest.load import load
from tests.support.dev_server import DevServer, Output, dev_server
from tests.support.fleet import FleetNodes, require_nats
from tests.support.service import environ_of, svc

HOSTS = ("dev", "fleet")


class Hosted(Output):
    """A deployed application. Requests go to the nodes in turn; `lines` are the logs of all nodes."""

    def __init__(self, nodes: FleetNodes, host: str) -> None:
        super().__init__()
        self._nodes, self._host = nodes, host
        self._turns = itertools.cycle([server.port for server in nodes.servers])

    @property
    def port(self) -> int:
        """The port of the next node."""
        return next(self._turns)

    @property
    def url(self) -> str:
        """The address of the application on the next node, for a browser."""
        return f"http://{self._host}:{self.port}"

    @property
    def authority(self) -> str:
        return self._host

    def request(self, method: str, path: str, **more: object) -> httpx.Response:
        url, headers = f"http://127.0.0.1:{self.port}{path}", {"host": self._host}
        return httpx.request(method, url, headers=headers, timeout=60, **more)  # type: ignore[arg-type]

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def stream(self, path: str, **headers: str) -> AbstractContextManager[httpx.Response]:
        url = f"http://127.0.0.1:{self.port}{path}"
        return httpx.stream("GET", url, headers={"host": self._host, **headers}, timeout=60)


Host = DevServer | Hosted


@contextmanager
def host(kind: str, project: Path, home: Path, root: Path) -> Iterator[Host]:
    """Run a project on one of `HOSTS`. `home` has the toolchains; `root` is for data folders."""
    if kind == "dev":
        with dev_server(project, home) as server:
            yield server
    else:
        require_nats()
        with _fleet(root, project, (home / "cache").resolve()) as hosted:
            yield hosted


@contextmanager
def _fleet(root: Path, project: Path, cache: Path) -> Iterator[Hosted]:
    """Deploy a project to a service that becomes a fleet, and follow its logs."""
    nodes = FleetNodes(root, project, environ_of(root / "home", cache), cache)
    followers: list[subprocess.Popen[str]] = []
    try:
        nodes.form()
        hosted = Hosted(nodes, f"front--{load(project).name}.localhost")
        followers.append(_follow(project, nodes.environ_at(1), hosted))  # It shows the logs of all nodes.
        yield hosted
    finally:
        _end(followers)
        nodes.close()


def _follow(project: Path, environ: dict[str, str], output: Output) -> subprocess.Popen[str]:
    """Add the log of the fleet to an output."""
    process = subprocess.Popen(
        [*svc(), "logs", "--service", "--follow"],
        cwd=project,
        env={**environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    threading.Thread(target=output.read, args=(process.stdout,), daemon=True).start()
    return process


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()
