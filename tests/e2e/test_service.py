"""`svc serve` and the commands around it, as a person uses them: processes, sockets, an empty HOME."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.lanes.components import component

pytestmark = pytest.mark.slow
MANIFEST = '[project]\nname = "shop"\n\n[resource.web]\nlane = "static"\npublic = true\noutput = "site"\n'
PASSWORD = "correct horse battery"


class Server:
    """`svc serve` on a data folder."""

    def __init__(self, folder: Path, environ: dict[str, str], port: int = 0, *options: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [
                *svc(),
                "serve",
                "--data",
                str(folder),
                "--listen",
                "127.0.0.1:0",
                "--control",
                f"127.0.0.1:{port}",
                *options,
            ],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.control = self.process.stdout.readline().split()[-1]
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def code(self) -> str:
        assert self.process.stderr is not None
        found = re.search(r"with the code ([a-z0-9-]+)", self.process.stderr.readline())
        assert found is not None
        return found[1]

    def get(self, path: str = "/") -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers={"host": "web--shop.localhost"})

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


def svc() -> list[str]:
    return [sys.executable, "-m", "svc_tui"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SVC_")}
    home = tmp_path / "home ü"
    home.mkdir()
    return {**kept, "SVC_HOME": str(home), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


@pytest.fixture
def server(tmp_path: Path, environ: dict[str, str]) -> Iterator[Server]:
    server = Server(tmp_path / "data ü", environ)
    yield server
    server.stop()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop ü"
    (root / "site").mkdir(parents=True)
    (root / "svc.toml").write_text(MANIFEST)
    (root / "site" / "index.html").write_text("one")
    return root


def run(
    project: Path, environ: dict[str, str], *arguments: str, text: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*svc(), *arguments],
        cwd=project,
        env=environ,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )


def login(server: Server, project: Path, environ: dict[str, str]) -> None:
    done = run(
        *(project, environ, "login", server.control, "--user", "ann", "--claim", server.code()),
        "--password-stdin",
        text=PASSWORD,
    )
    assert done.returncode == 0, done.stderr


def test_the_whole_way_from_login_to_rollback(server: Server, project: Path, environ: dict[str, str]) -> None:
    refused = run(project, environ, "deploy")
    assert refused.returncode == 3 and "svc login" in refused.stderr
    login(server, project, environ)
    planned = run(project, environ, "deploy", "--plan")
    assert planned.returncode == 0 and "web" in planned.stdout and server.get().status_code == 404
    deployed = run(project, environ, "deploy", "-m", "fir\nst\x1b[2J")
    assert deployed.returncode == 0, deployed.stderr
    assert deployed.stdout.split() == ["web", "static", f"http://web--shop.localhost:{server.port}"]
    assert server.get().text == "one"
    (project / "site" / "index.html").write_text("two")
    assert run(project, environ, "deploy").returncode == 0 and server.get().text == "two"
    again = run(project, environ, "deploy")
    assert again.returncode == 0 and "nothing changed" in again.stderr
    back = run(project, environ, "rollback", "--yes", "-m", "two is bad")
    assert back.returncode == 0, back.stderr
    assert server.get().text == "one"
    found = json.loads(run(project, environ, "deployments", "--json").stdout)
    assert [activation["message"] for activation in found["activations"]] == [
        "two is bad",
        "",
        "fir\nst\x1b[2J",
    ]
    listed = run(project, environ, "deployments").stdout
    assert "  fir st" in listed and "\x1b" not in listed and len(listed.splitlines()) == 3
    shown = run(project, environ, "open", "--print").stdout.strip()
    assert shown == f"http://web--shop.localhost:{server.port}"


def test_an_unchanged_project_with_migrations_is_not_deployed_again(
    server: Server, project: Path, environ: dict[str, str]
) -> None:
    (project / "tables").mkdir()
    (project / "tables" / "1.sql").write_text("create table note (id integer primary key)")
    login(server, project, environ)
    first = run(project, environ, "deploy")
    assert first.returncode == 0 and "tables/1.sql  migration" in first.stderr, first.stderr
    again = run(project, environ, "deploy")
    assert again.returncode == 0 and "nothing changed" in again.stderr, again.stderr
    found = json.loads(run(project, environ, "deployments", "--json").stdout)
    assert len(found["deployments"]) == 1
    planned = json.loads(run(project, environ, "deploy", "--plan", "--json").stdout)
    assert planned["changes"] == planned["migrations"] == []


def test_who_may_not_deploy_is_told_before_anything_is_built(
    server: Server, project: Path, environ: dict[str, str]
) -> None:
    login(server, project, environ)
    made = run(project, environ, "token", "create", "ci", "--role", "viewer", "--project", "shop")
    viewer = {**environ, "SVC_URL": server.control, "SVC_TOKEN": made.stdout.strip()}
    refused = run(project, viewer, "deploy")
    assert refused.returncode == 1 and "ann/ci is only viewer of the project shop" in refused.stderr
    assert "build" not in refused.stderr


def test_a_new_capability_is_refused_before_anything_is_uploaded(
    server: Server, project: Path, environ: dict[str, str]
) -> None:
    made = '\n[resource.api]\nlane = "rust"\nbuild = "cp made.bin api.wasm"\noutput = "api.wasm"\n'
    (project / "svc.toml").write_text(MANIFEST + made)
    (project / "made.bin").write_bytes(component())
    login(server, project, environ)
    deployed = run(project, environ, "deploy")
    assert deployed.returncode == 0, deployed.stderr
    (project / "made.bin").write_bytes(component(("wasi:random/random@0.2.3",)))
    refused = run(project, environ, "deploy")
    assert refused.returncode == 1 and "api now imports wasi:random" in refused.stderr, refused.stderr
    assert "--allow-new-capability" in refused.stderr and "upload" not in refused.stderr
    allowed = run(project, environ, "deploy", "--allow-new-capability")
    assert allowed.returncode == 0, allowed.stderr


def test_secrets_from_the_command_line(server: Server, project: Path, environ: dict[str, str]) -> None:
    login(server, project, environ)
    assert run(project, environ, "secret", "set", "KEY", text="välue\n").returncode == 0
    assert run(project, environ, "secret", "list").stdout.split() == ["KEY"]
    wrong = run(project, environ, "secret", "set", "SVC_X", text="x")
    assert wrong.returncode != 0 and "SVC_X" in wrong.stderr and "Traceback" not in wrong.stderr
    assert run(project, environ, "secret", "rm", "KEY").returncode == 0
    assert run(project, environ, "secret", "list").stdout == ""
    assert "no such path" in run(project, environ, "secret", "rm", "../deployments").stderr
    assert "the value of KEY is empty" in run(project, environ, "secret", "set", "KEY", text="").stderr


def test_logs_are_followed_through_a_restart(tmp_path: Path, project: Path, environ: dict[str, str]) -> None:
    first = Server(tmp_path / "data", environ)
    following = None
    try:
        login(first, project, environ)
        assert run(project, environ, "deploy").returncode == 0
        lines: list[str] = []
        following = subprocess.Popen(
            [*svc(), "logs", "-f", "--json", "--service"],
            cwd=project,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # A test runner in the background may ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        heard = threading.Condition()

        def read() -> None:
            assert following is not None and following.stdout is not None
            for line in following.stdout:
                with heard:
                    lines.append(json.loads(line)["target"])
                    heard.notify_all()

        reading = threading.Thread(target=read, daemon=True)
        reading.start()

        def until(target: str) -> None:
            with heard:
                assert heard.wait_for(lambda: target in lines, 30), lines

        first.get("/one")
        until("/one")
        assert first.stop() == 0
        control = int(first.control.rpartition(":")[2])
        second = Server(tmp_path / "data", environ, control)
        try:
            second.get("/two")
            until("/two")
            assert [line for line in lines if line in ("/one", "/two")] == ["/one", "/two"]
            assert json.loads(run(project, environ, "usage", "--json").stdout)["rows"]
        finally:
            second.stop()
    finally:
        if following is not None:
            following.send_signal(signal.SIGINT)
            assert following.wait(20) == 130
            reading.join()
            assert following.stdout is not None
            following.stdout.close()
        first.stop()


def test_a_stop_lets_requests_end(server: Server, project: Path, environ: dict[str, str]) -> None:
    login(server, project, environ)
    assert run(project, environ, "deploy").returncode == 0
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 20


def test_two_services_on_one_folder(server: Server, tmp_path: Path, environ: dict[str, str]) -> None:
    second = subprocess.run(
        [
            *svc(),
            "serve",
            "--data",
            str(tmp_path / "data ü"),
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
        ],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1 and f"process {server.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr
