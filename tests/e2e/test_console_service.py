"""The Console of a deployed project: a real `svc serve` with one deployment."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from svc_tui.client import Client
from tests.support.service import PASSWORD, Server, environ_of, login, prepare, static_project, svc
from tests.support.terminal import Terminal, terminal
from tests.support.web_console import SECONDS, read_until, send, socket, wait_for_exit, web_console

pytestmark = pytest.mark.slow
END_SECONDS = 1.0


@dataclass
class Live:
    """A service with one deployed project, and the environment of its owner."""

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
        line = console.output("#{cursor_y}")
        console.type(each)
        console.keys("Enter")
        console.until(lambda _, line=line: console.output("#{cursor_y}") != line)  # type: ignore[misc]


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


@pytest.mark.alone
@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/tokens/web", 3, "rejected SVC_TOKEN"),
        ("/v1/users/eve", 3, "rejected SVC_TOKEN"),
        ("/v1/users/eve/roles/shop", 1, "eve has no role in the project shop"),
    ],
    ids=["revoked token", "removed user", "removed role"],
)
def test_browser_console_ends_when_its_rights_are_revoked(
    live: Live, tmp_path: Path, path: str, status: int, message: str
) -> None:
    session = json.loads((Path(live.environ["SVC_HOME"]) / "sessions.json").read_text())
    owner = Client(live.server.control, session["services"][live.server.control]["token"])
    if "tokens" in path:
        body = {"name": "web", "role": "viewer", "projects": ["shop"], "days": 1}
        token = owner.call("POST", "/v1/tokens", body)["token"]
    else:
        owner.call("PUT", "/v1/users/eve", {"password": PASSWORD, "roles": {"shop": "viewer"}})
        token = owner.call("POST", "/v1/login", {"user": "eve", "password": PASSWORD})["token"]
    environ = {**live.environ, "SVC_URL": live.server.control, "SVC_TOKEN": token}
    home = Path(environ["SVC_HOME"])
    with owner, web_console(tmp_path, home, "--service", **environ) as web:
        with socket(web, web.entered()) as connection:
            read_until(connection, "● live")
            (console,) = web.sessions()
            owner.call("DELETE", path)
            revoked_at = time.monotonic()
            connection.text_to_end()
            assert time.monotonic() - revoked_at < END_SECONDS
            assert web.process.wait(SECONDS) == status
        wait_for_exit(console)
        assert message in web.errors()
        if "roles" in path:
            owner.call("DELETE", "/v1/users/eve")
