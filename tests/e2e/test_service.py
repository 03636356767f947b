"""`svc serve` and the commands around it: processes, sockets, an empty HOME."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lanes.components import component
from tests.support.service import ANY_PORTS, MANIFEST, PASSWORD, Server, environ_of, run, static_project, svc

pytestmark = pytest.mark.slow


@dataclass
class Service:
    """A claimed service that all tests share; each test has its own project."""

    server: Server
    environ: dict[str, str]

    def svc(self, project: Path, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        return run(project, self.environ, *arguments, text=text)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    environ = environ_of(folder / "home ü")
    service = Service(Server(folder / "data ü", environ), environ)
    claim = ("--user", "ann", "--claim", service.server.code(), "--password-stdin")
    result = service.svc(folder, "login", service.server.control, *claim, text=PASSWORD)
    assert result.returncode == 0, result.stderr
    yield service
    service.server.stop()


def test_deploy_without_a_session_is_refused(tmp_path: Path) -> None:
    project = static_project(tmp_path / "shop")
    result = run(project, environ_of(tmp_path / "home"), "deploy")
    assert result.returncode == 3 and "svc login" in result.stderr


def test_deploy_plans_deploys_and_rolls_back(service: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "shop ü")
    planned = service.svc(project, "deploy", "--plan")
    assert planned.returncode == 0 and "web" in planned.stdout and service.server.get().status_code == 404
    deployed = service.svc(project, "deploy", "-m", "fir\nst\x1b[2J")
    assert deployed.returncode == 0, deployed.stderr
    url = f"http://shop.localhost:{service.server.port}"
    assert deployed.stdout.split() == ["shop", url, "web", "static", url.replace("shop", "web--shop")]
    assert service.server.get().text == "one"
    (project / "site" / "index.html").write_text("two")
    assert service.svc(project, "deploy").returncode == 0 and service.server.get().text == "two"
    second = service.svc(project, "deploy")
    assert second.returncode == 0 and "nothing changed" in second.stderr
    back = service.svc(project, "rollback", "--yes", "-m", "two is bad")
    assert back.returncode == 0, back.stderr
    assert service.server.get().text == "one"
    history = json.loads(service.svc(project, "deployments", "--json").stdout)
    messages = [activation["message"] for activation in history["activations"]]
    assert messages == ["two is bad", "", "fir\nst\x1b[2J"]
    listed = service.svc(project, "deployments").stdout
    assert "  fir st" in listed and "\x1b" not in listed and len(listed.splitlines()) == 4
    assert listed.startswith(f"shop  {url}\n")
    assert service.svc(project, "open", "--print").stdout.strip() == url
    assert service.svc(project, "open", "web", "--print").stdout.strip() == url.replace("shop", "web--shop")


def test_deploy_by_a_viewer_is_refused_before_the_build(service: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "shop")
    created = service.svc(project, "token", "create", "ci", "--role", "viewer", "--project", "shop")
    viewer = {**service.environ, "SVC_URL": service.server.control, "SVC_TOKEN": created.stdout.strip()}
    result = run(project, viewer, "deploy")
    assert result.returncode == 1 and "ann/ci is only viewer of the project shop" in result.stderr
    assert "build" not in result.stderr


def test_deploy_with_a_new_capability_is_refused_before_the_upload(service: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "capable", "capable")
    resource = '\n[resource.api]\nlane = "rust"\nbuild = "cp made.bin api.wasm"\noutput = "api.wasm"\n'
    (project / "svc.toml").write_text(MANIFEST.format("capable") + resource)
    (project / "made.bin").write_bytes(component())
    deployed = service.svc(project, "deploy")
    assert deployed.returncode == 0, deployed.stderr
    (project / "made.bin").write_bytes(component(("wasi:random/random@0.2.3",)))
    result = service.svc(project, "deploy")
    assert result.returncode == 1 and "api now imports wasi:random" in result.stderr, result.stderr
    assert "--allow-new-capability" in result.stderr and "upload" not in result.stderr
    allowed = service.svc(project, "deploy", "--allow-new-capability")
    assert allowed.returncode == 0, allowed.stderr


def test_secret_commands_set_list_and_remove(service: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "secretive", "secretive")
    assert service.svc(project, "secret", "set", "KEY", text="välue\n").returncode == 0
    assert service.svc(project, "secret", "list").stdout.split() == ["KEY"]
    wrong = service.svc(project, "secret", "set", "SVC_X", text="x")
    assert wrong.returncode != 0 and "SVC_X" in wrong.stderr and "Traceback" not in wrong.stderr
    assert service.svc(project, "secret", "rm", "KEY", "--yes").returncode == 0
    assert service.svc(project, "secret", "list").stdout == ""
    assert "no such path" in service.svc(project, "secret", "rm", "../deployments", "--yes").stderr
    assert "the value of KEY is empty" in service.svc(project, "secret", "set", "KEY", text="").stderr


def test_serve_on_a_folder_in_use_fails(service: Service, tmp_path: Path) -> None:
    second = run(tmp_path, service.environ, "serve", "--data", str(service.server.folder), *ANY_PORTS)
    assert second.returncode == 1 and f"process {service.server.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr


def test_logs_follow_continues_after_a_restart_of_the_service(service: Service, tmp_path: Path) -> None:
    project = static_project(tmp_path / "followed", "followed")
    assert service.svc(project, "deploy").returncode == 0
    wrong = service.svc(project, "logs", "--service", "--after", "xx")
    assert wrong.returncode == 2 and "--after xx is not a cursor" in wrong.stderr
    targets: list[str] = []
    following = subprocess.Popen(
        [*svc(), "logs", "-f", "--json", "--service"],
        cwd=project,
        env=service.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A test runner in the background may ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    changed = threading.Condition()

    def read() -> None:
        assert following.stdout is not None
        for line in following.stdout:
            with changed:
                targets.append(json.loads(line)["target"])
                changed.notify_all()

    def until(target: str) -> None:
        with changed:
            assert changed.wait_for(lambda: target in targets, 60), targets

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        service.server.get("/one", "followed")
        until("/one")
        began = time.monotonic()
        assert service.server.stop() == 0
        assert time.monotonic() - began < 20
        service.server = service.server.restarted(service.environ)
        service.server.get("/two", "followed")
        until("/two")
        assert [target for target in targets if target in ("/one", "/two")] == ["/one", "/two"]
        usage = json.loads(service.svc(project, "usage", "--json").stdout)
        assert usage["rows"]
        assert [(each["name"], each["log_bytes"]) for each in usage["doors"]] == [("tables", 0)]
    finally:
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 130
        reading.join()
        assert following.stdout is not None
        following.stdout.close()
