"""`svc serve` in hardship: a full disk, killed workers, folders and files that are others'."""

import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e import test_service as hosting
from tests.e2e.test_service import Server, login, run, svc
from tests.support.certificates import self_signed

pytestmark = pytest.mark.slow
environ, project = hosting.environ, hosting.project
CONNECTIONS = 24
NO_LIMIT = resource.RLIM_INFINITY


@pytest.fixture
def server(tmp_path: Path, environ: dict[str, str]) -> Iterator[Server]:
    server = Server(tmp_path / "data ü", environ)
    yield server
    server.stop()


@pytest.fixture
def pair(tmp_path: Path, environ: dict[str, str]) -> Iterator[Server]:
    """A service of two workers."""
    server = Server(tmp_path / "data ü", environ, 0, "--workers", "2")
    yield server
    server.stop()


def write(project: Path, text: str, more: bytes = b"") -> None:
    (project / "site" / "index.html").write_text(text)
    (project / "site" / "large.bin").write_bytes(more)


def test_a_full_disk_in_a_deploy_leaves_what_is_live(
    server: Server, project: Path, environ: dict[str, str]
) -> None:
    login(server, project, environ)
    write(project, "one")
    assert run(project, environ, "deploy").returncode == 0
    write(project, "two", os.urandom(4 << 20))
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1 << 20, NO_LIMIT))
    failed = run(project, environ, "deploy")
    assert failed.returncode == 1 and "space" in failed.stderr, failed.stderr
    assert str(server.folder) not in failed.stderr
    assert "Traceback" not in failed.stderr
    assert server.get().text == "one"
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
    assert run(project, environ, "deploy").returncode == 0
    assert server.get().text == "two" and len(server.get("/large.bin").content) == 4 << 20


def test_a_disk_without_a_byte_of_room_leaves_what_is_live(
    server: Server, project: Path, environ: dict[str, str]
) -> None:
    login(server, project, environ)
    write(project, "one")
    assert run(project, environ, "deploy").returncode == 0
    write(project, "two")
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, NO_LIMIT))
    failed = run(project, environ, "deploy")
    assert failed.returncode == 1 and "space" in failed.stderr, failed.stderr
    assert str(server.folder) not in failed.stderr
    assert "Traceback" not in failed.stderr
    assert server.get().text == "one"
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
    assert run(project, environ, "deploy").returncode == 0
    assert server.get().text == "two"


def serve_fails(environ: dict[str, str], *options: str | Path) -> str:
    """Return what `svc serve` says before it ends."""
    listen = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
    done = subprocess.run(
        [*svc(), "serve", *listen, *options], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode not in (0, 70) and done.stdout == "" and "Traceback" not in done.stderr
    return done.stderr


def test_a_folder_of_a_newer_svc_is_left_alone(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "version").write_text("svc bucket, layout 999\n")
    assert "newer svc" in serve_fails(environ, "--data", folder)
    assert {path.name for path in folder.iterdir()} <= {"version", "lock"}


def test_a_folder_with_somebodys_files_is_left_alone(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_text("cat")
    assert "cat.jpg" in serve_fails(environ, "--data", folder)
    assert {path.name for path in folder.iterdir()} <= {"cat.jpg", "lock"}


def test_a_key_of_another_certificate_is_said(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "other").mkdir()
    certificate, (_, key) = self_signed(tmp_path)[0], self_signed(tmp_path / "other")
    said = serve_fails(environ, "--data", tmp_path / "data", "--tls-cert", certificate, "--tls-key", key)
    assert str(key) in said and "PEM" in said


def workers(server: Server) -> set[int]:
    listed = subprocess.run(
        ["pgrep", "-P", str(server.process.pid), "-f", "svc_tui.worker"], capture_output=True, text=True
    )
    return {int(number) for number in listed.stdout.split()}


def answers(server: Server) -> set[str]:
    """Ask on so many connections that each worker gets some of them."""
    return {server.get().text for _ in range(CONNECTIONS)}


def test_workers_answer_before_anything_is_deployed(pair: Server) -> None:
    assert {httpx.get(f"http://127.0.0.1:{pair.port}/").status_code for _ in range(CONNECTIONS)} == {404}


def test_every_worker_serves_a_deploy_as_soon_as_it_is_done(
    pair: Server, project: Path, environ: dict[str, str]
) -> None:
    login(pair, project, environ)
    assert len(workers(pair)) == 2
    for text in ("one", "two", "three"):
        write(project, text)
        done = run(project, environ, "deploy")
        assert done.returncode == 0, done.stderr
        assert answers(pair) == {text}
    assert run(project, environ, "rollback", "--yes").returncode == 0
    assert answers(pair) == {"two"}


def test_a_killed_worker_comes_back_with_all_that_is_live(
    pair: Server, project: Path, environ: dict[str, str]
) -> None:
    login(pair, project, environ)
    write(project, "one")
    assert run(project, environ, "deploy").returncode == 0
    manifest = project / "svc.toml"
    manifest.write_text(manifest.read_text().replace('"shop"', '"other"'))
    write(project, "another")
    assert run(project, environ, "deploy").returncode == 0
    for worker in sorted(workers(pair)):
        os.kill(worker, signal.SIGKILL)
        said = next(line for line in pair.process.stderr if "signal 9" in line)  # type: ignore[union-attr]
        assert "starting another" in said
    assert answers(pair) == {"one"}
    host = {"host": "web--other.localhost"}
    asked = [httpx.get(f"http://127.0.0.1:{pair.port}/", headers=host) for _ in range(CONNECTIONS)]
    assert {answer.text for answer in asked} == {"another"}
    assert len(workers(pair)) == 2


def test_a_worker_without_files_for_connections_says_so_and_goes_on_later(pair: Server) -> None:
    assert {pair.get().status_code for _ in range(CONNECTIONS)} == {404}, "both have begun"
    limits = {worker: resource.prlimit(worker, resource.RLIMIT_NOFILE) for worker in workers(pair)}
    for worker in limits:
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (1, limits[worker][1]))
    with socket.create_connection(("127.0.0.1", pair.port)):
        said = next(line for line in pair.process.stderr if "cannot accept a connection" in line)  # type: ignore[union-attr]
        assert "Too many open files" in said
        for worker, before in limits.items():
            resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
    assert {pair.get().status_code for _ in range(CONNECTIONS)} == {404}


def test_workers_survive_a_restart_and_none_outlives_the_service(
    tmp_path: Path, project: Path, environ: dict[str, str]
) -> None:
    data = tmp_path / "data"
    first = Server(data, environ, 0, "--workers", "2")
    try:
        login(first, project, environ)
        write(project, "one")
        assert run(project, environ, "deploy").returncode == 0
        started = workers(first)
    finally:
        assert first.stop() == 0
    assert not any(Path(f"/proc/{worker}/cmdline").exists() for worker in started)
    second = Server(data, environ, 0, "--workers", "2")
    try:
        assert answers(second) == {"one"}
    finally:
        second.stop()
