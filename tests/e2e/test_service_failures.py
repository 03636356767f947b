"""Failures of `svc serve`: a full disk, killed workers, folders and files of other programs."""

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.certificates import self_signed
from tests.support.service import ANY_PORTS, Server, environ_of, login, prepare, run, static_project
from tests.support.waiting import until

pytestmark = pytest.mark.slow
CONNECTIONS = 24
NO_LIMIT = resource.RLIM_INFINITY


@dataclass
class Service:
    """A service that the tests share in file order; each test has its own project."""

    server: Server
    environ: Mapping[str, str]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A claimed service."""
    folder = tmp_path_factory.mktemp("service")
    environ = environ_of(folder / "home")
    server = Server(folder / "data ü", environ)
    login(server, folder, environ)
    yield Service(server, environ)
    server.stop()


@pytest.fixture(scope="module")
def unclaimed_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service of two workers, and its claim code."""
    folder = tmp_path_factory.mktemp("pair")
    environ = environ_of(folder / "home")
    service = Service(Server(folder / "data ü", environ, "--workers", "2"), environ)
    until(lambda: len(workers(service.server)) == 2)
    yield service, service.server.code()
    service.server.stop()


@pytest.fixture(scope="module")
def pair(unclaimed_pair: tuple[Service, str]) -> Service:
    """That service, claimed."""
    service, code = unclaimed_pair
    login(service.server, service.server.folder.parent, service.environ, code)
    return service


def write(project: Path, text: str, more: bytes = b"") -> None:
    (project / "site" / "index.html").write_text(text)
    (project / "site" / "large.bin").write_bytes(more)


@pytest.mark.parametrize(("file_limit", "large"), [(1 << 20, 4 << 20), (0, 0)], ids=["some-room", "no-room"])
def test_deploy_onto_a_full_disk_leaves_the_live_version(
    service: Service, tmp_path: Path, file_limit: int, large: int
) -> None:
    server, name = service.server, f"full{file_limit}"
    project = static_project(tmp_path / "shop", name)
    prepare(project, service.environ, "deploy")
    write(project, "two", os.urandom(large))
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (file_limit, NO_LIMIT))
    failed = run(project, service.environ, "deploy")
    assert failed.returncode == 1 and "space" in failed.stderr, failed.stderr
    assert str(server.folder) not in failed.stderr
    assert "Traceback" not in failed.stderr
    assert server.get(project=name).text == "one"
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
    assert run(project, service.environ, "deploy").returncode == 0
    assert server.get(project=name).text == "two"
    assert len(server.get("/large.bin", name).content) == large


def serve_fails(tmp_path: Path, *options: str | Path) -> str:
    """Return the output of `svc serve` that fails to start."""
    result = run(tmp_path, environ_of(tmp_path / "home"), "serve", *ANY_PORTS, *map(str, options))
    assert result.returncode not in (0, 70) and result.stdout == "" and "Traceback" not in result.stderr
    return result.stderr


def test_serve_on_a_folder_of_a_newer_svc_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "version").write_text("svc bucket, layout 999\n")
    assert "newer svc" in serve_fails(tmp_path, "--data", folder)
    assert {path.name for path in folder.iterdir()} <= {"version", "lock"}


def test_serve_on_a_folder_with_other_files_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_text("cat")
    assert "cat.jpg" in serve_fails(tmp_path, "--data", folder)
    assert {path.name for path in folder.iterdir()} <= {"cat.jpg", "lock"}


def test_serve_with_the_key_of_another_certificate_fails(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    certificate, (_, key) = self_signed(tmp_path)[0], self_signed(tmp_path / "other")
    printed = serve_fails(tmp_path, "--data", tmp_path / "data", "--tls-cert", certificate, "--tls-key", key)
    assert str(key) in printed and "PEM" in printed


def workers(server: Server) -> set[int]:
    process = subprocess.run(
        ["pgrep", "-P", str(server.process.pid), "-f", "svc_tui.worker"], capture_output=True, text=True
    )
    return {int(number) for number in process.stdout.split()}


def statuses(server: Server) -> set[int]:
    """Return the statuses of responses on enough connections to reach each worker."""
    return {httpx.get(f"http://127.0.0.1:{server.port}/", timeout=60).status_code for _ in range(CONNECTIONS)}


def texts(server: Server, project: str) -> set[str]:
    """Return the responses of all workers."""
    return {server.get(project=project).text for _ in range(CONNECTIONS)}


def test_worker_without_file_descriptors_reports_it_and_recovers(unclaimed_pair: tuple[Service, str]) -> None:
    server = unclaimed_pair[0].server
    assert statuses(server) == {404}, "both workers respond before the first deploy"
    limits = {worker: resource.prlimit(worker, resource.RLIMIT_NOFILE) for worker in workers(server)}
    for worker in limits:
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (1, limits[worker][1]))
    with socket.create_connection(("127.0.0.1", server.port)):
        assert "Too many open files" in server.wait_for("cannot accept a connection")
        for worker, before in limits.items():
            resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
    assert statuses(server) == {404}


def test_deploy_is_served_by_every_worker_when_it_ends(pair: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "shop", "shop")
    assert len(workers(pair.server)) == 2
    for text in ("one", "two", "three"):
        write(project, text)
        prepare(project, pair.environ, "deploy")
        assert texts(pair.server, "shop") == {text}
    assert run(project, pair.environ, "rollback", "--yes").returncode == 0
    assert texts(pair.server, "shop") == {"two"}


def test_killed_workers_are_replaced_and_serve_every_deployment(pair: Service, tmp_path: Path) -> None:
    for name in ("first", "second"):
        project = static_project(tmp_path / name, name)
        write(project, f"{name} page")
        prepare(project, pair.environ, "deploy")
    for worker in sorted(workers(pair.server)):
        os.kill(worker, signal.SIGKILL)
        assert "starting another" in pair.server.wait_for("signal 9")
    for name in ("first", "second"):
        assert texts(pair.server, name) == {f"{name} page"}
    until(lambda: len(workers(pair.server)) == 2)


def test_workers_end_with_the_service_and_serve_deployments_after_a_restart(
    pair: Service, tmp_path: Path
) -> None:
    prepare(static_project(tmp_path / "kept", "kept"), pair.environ, "deploy")
    started = workers(pair.server)
    assert pair.server.stop() == 0
    assert not any(Path(f"/proc/{worker}/cmdline").exists() for worker in started)
    pair.server = pair.server.restarted(pair.environ, "--workers", "2")
    assert texts(pair.server, "kept") == {"one"}


def test_deploy_of_an_unchanged_project_replaces_damaged_files(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    server = Server(tmp_path / "data", environ)
    login(server, tmp_path, environ)
    project = static_project(tmp_path / "shop")
    prepare(project, environ, "deploy")
    assert server.stop() == 0
    for blob in (server.folder / "blobs").iterdir():
        blob.write_bytes(b"damaged")
    server = server.restarted(environ)
    try:
        assert server.get().status_code != 200
        planned = run(project, environ, "deploy", "--plan")
        assert planned.returncode == 0 and "files of" in planned.stderr and "are lost" in planned.stderr
        prepare(project, environ, "deploy")
        assert server.get().text == "one"
    finally:
        server.stop()


def test_requests_to_more_projects_than_the_limit_of_open_files_has_room_for(tmp_path: Path) -> None:
    environ, names = environ_of(tmp_path / "home"), [f"p{number:02}" for number in range(24)]
    server = Server(tmp_path / "data", environ, files=256)
    try:
        login(server, tmp_path, environ)
        for name in names:
            prepare(static_project(tmp_path / name, name), environ, "deploy")
        with ThreadPoolExecutor(len(names)) as threads:
            for _ in range(3):
                answers = threads.map(lambda name: server.get(project=name), names * 4)
                assert {answer.status_code for answer in answers} == {200}
        until(lambda: len(open_databases(server)) <= 16)
        # Files that are opened in turn get their records within a second.
        for name in (names[0], names[-1]):
            until(lambda name=name: logged_requests(tmp_path / name, environ) == 12)
    finally:
        server.stop()


def logged_requests(project: Path, environ: Mapping[str, str]) -> int:
    lines = run(project, environ, "logs", "--service", "--json").stdout.splitlines()
    return sum(json.loads(line)["kind"] == "request" for line in lines)


def open_databases(server: Server) -> list[str]:
    """Return the open files of records and usage of projects."""
    names = []
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(str(link.readlink()))
    return [name for name in names if name.endswith(("timeline.db", "usage.db"))]
