"""The Console of a deployed project: a real `svc serve` with one deployment."""

from pathlib import Path

import pytest

from tests.e2e.test_service import PASSWORD, Server, environ, login, project, run, server, svc
from tests.support.terminal import Terminal, terminal
from tests.support.web_console import read_until, send, socket, web_console

pytestmark = pytest.mark.slow
__all__ = ["environ", "project", "server"]


@pytest.fixture
def live(server: Server, project: Path, environ: dict[str, str]) -> Server:
    login(server, project, environ)
    done = run(project, environ, "deploy", "-m", "the first")
    assert done.returncode == 0, done.stderr
    return server


@pytest.fixture
def elsewhere(tmp_path: Path, environ: dict[str, str]) -> Path:
    """A folder without a project, and no saved session."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    environ["SVC_HOME"] = str(tmp_path / "no-session")
    return folder


def fill(console: Terminal, *words: str) -> None:
    """Fill in fields one after another; wait for the cursor before each."""
    for each in words:
        line = console.told("#{cursor_y}")
        console.type(each)
        console.keys("Enter")
        console.until(lambda _, line=line: console.told("#{cursor_y}") != line)  # type: ignore[misc]


def test_login_dialog_opens_deployed_project(live: Server, elsewhere: Path, environ: dict[str, str]) -> None:
    with terminal([*svc(), "console", "--service"], elsewhere, environ) as console:
        console.until("Log in to a service")
        fill(console, live.control, "ann")
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


def test_console_reconnects_to_restarted_service(
    live: Server, project: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    with terminal([*svc(), "console", "--service"], project, environ) as console:
        console.until("● live")
        live.process.kill()
        console.until("○ lost")
        live.process.wait()
        again = Server(live.folder, environ, int(live.control.rpartition(":")[2]))
        try:
            console.until("● live")
            console.keys("H")
            console.until("the first")
            console.keys("q")
            console.restored()
        finally:
            again.stop()


def test_browser_shows_deployed_project(
    live: Server, project: Path, elsewhere: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    home = tmp_path / "home ü"
    with (
        web_console(elsewhere, home, "--service", **{**environ, "SVC_HOME": str(home)}) as web,
        socket(web, web.entered()) as connection,
    ):
        read_until(connection, "● live")
        send(connection, "H")
        read_until(connection, "the first")
