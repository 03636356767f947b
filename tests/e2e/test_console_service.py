"""The Console of a deployed project: a real `svc serve` with one deployment."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from svc_tui.client import Client
from tests.support.service import PASSWORD, Server, environ_of, login, prepare, static_project, svc
from tests.support.terminal import Terminal, terminal
from tests.support.web_console import SECONDS, gone, read_until, send, socket, web_console

pytestmark = pytest.mark.slow


@dataclass
class Live:
    """A service with one deployed Project, and the environment of its owner."""

    server: Server
    project: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    environ = environ_of(folder / "home ü")
    server = Server(folder / "data ü", environ)
    project = static_project(folder / "shop ü")
    login(server, project, environ)
    prepare(project, environ, "deploy", "-m", "the first")
    live = Live(server, project, environ)
    yield live
    live.server.stop()


def fill(console: Terminal, *words: str) -> None:
    """Fill in fields one after another; wait for the cursor before each."""
    for each in words:
        line = console.told("#{cursor_y}")
        console.type(each)
        console.keys("Enter")
        console.until(lambda _, line=line: console.told("#{cursor_y}") != line)  # type: ignore[misc]


def test_login_dialog_opens_deployed_project(live: Live, tmp_path: Path) -> None:
    environ = {**live.environ, "SVC_HOME": str(tmp_path / "no-session")}
    with terminal([*svc(), "console", "--service"], tmp_path, environ) as console:
        console.until("Log in to a service")
        fill(console, live.server.control, "ann")
        console.type("wrong")
        console.keys("Enter")
        console.until("is wrong")
        console.keys("C-u")
        console.type(PASSWORD)
        console.keys("Enter")
        assert "shop" in console.until("● live")
        console.until("ready")
        console.keys("q")
        console.restored()


def test_browser_shows_deployed_project(live: Live, tmp_path: Path) -> None:
    home = Path(live.environ["SVC_HOME"])
    with (
        web_console(tmp_path, home, "--service", **live.environ) as web,
        socket(web, web.entered()) as connection,
    ):
        read_until(connection, "● live")
        send(connection, "H")
        read_until(connection, "the first")


def test_console_reconnects_to_restarted_service(live: Live) -> None:
    with terminal([*svc(), "console", "--service"], live.project, live.environ) as console:
        console.until("● live")
        live.server.process.kill()
        console.until("○ lost")
        live.server.process.communicate()
        live.server = live.server.restarted(live.environ)
        console.until("● live")
        console.keys("H")
        console.until("the first")
        console.keys("q")
        console.restored()


def test_browser_console_ends_when_its_token_is_revoked(live: Live, tmp_path: Path) -> None:
    session = json.loads((Path(live.environ["SVC_HOME"]) / "sessions.json").read_text())
    owner = Client(live.server.control, session["services"][live.server.control]["token"])
    body = {"name": "web", "role": "viewer", "projects": ["shop"], "days": 1}
    token = owner.call("POST", "/v1/tokens", body)["token"]
    environ = {**live.environ, "SVC_URL": live.server.control, "SVC_TOKEN": token}
    home = Path(environ["SVC_HOME"])
    with owner, web_console(tmp_path, home, "--service", **environ) as web:
        with socket(web, web.entered()) as connection:
            read_until(connection, "● live")
            (console,) = web.sessions()
            owner.call("DELETE", "/v1/tokens/web")
            assert web.process.wait(SECONDS) == 3
        gone(console)
        assert "rejected SVC_TOKEN" in web.errors()
