"""Deploys and rollbacks from the Board, with the real client and a real service."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from screens.board.deploy_protocol import BoardDeployer
from screens.board.deploy_screen import DeployScreen
from screens.board.history_screen import HistoryScreen
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client
from svc_tui.client.credentials import Credentials, NotLoggedIn
from svc_tui.console.deployer import ConsoleDeployer, ProjectFiles
from tests.screens.board.conftest import Board, board
from tests.screens.conftest import Opened, idle
from tests.screens.dev_project import Shop
from tests.svc_tui.hosted import Hosted

pytestmark = pytest.mark.slow
Snapshot = Callable[[App[Any]], None]


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data") as hosted:
        yield hosted


class DeployerFactory:
    """A deployer of the shop project and its recorded links."""

    def __init__(self, hosted: Hosted, shop: Shop, tmp_path: Path) -> None:
        with hosted.claim():
            pass
        self.belongs: list[str] = []
        self.deployer = ConsoleDeployer(
            "shop",
            lambda: Credentials(hosted.control, hosted.control, token=hosted.token),
            ProjectFiles(shop.root, tmp_path / "deploy-cache", self._belongs),
        )

    def _belongs(self, service: str) -> None:
        self.belongs.append(service)


@pytest.fixture
def desk(hosted: Hosted, shop: Shop, tmp_path: Path) -> DeployerFactory:
    return DeployerFactory(hosted, shop, tmp_path)


Test = Callable[[Board], Awaitable[None]]


def run(opened: Opened, shop: Shop, deployer: BoardDeployer, test: Test) -> None:
    asyncio.run(board(opened, shop, test, deployer=deployer))


async def deployed(shown: Board) -> None:
    await shown.press("D")
    await shown.shows("to upload")
    await shown.press("enter")
    await shown.shows("is live")


def test_deploy_shows_plan_and_starts_on_enter(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(shown: Board) -> None:
        await shown.press("D")
        screen = shown.app.screen
        assert isinstance(screen, DeployScreen)
        await shown.until(lambda: screen.deploy_log.phase == "planned")
        assert "first deploy to http://127.0.0.1" in shown.text and "+ web" in shown.text
        await shown.press("D")
        assert screen.deploy_log.phase == "planned"
        await shown.press("m", *"hello", "enter", "enter")
        await shown.until(lambda: screen.deploy_log.phase == "live")
        assert "http://web--shop.apps.example:8080" in shown.text
        assert "private, mounted at web:/docs/*" in shown.text
        assert hosted.get().text == "one" and desk.belongs == [hosted.control]
        await shown.press("escape")
        assert shown.app.screen is shown.screen

    run(opened, shop, desk.deployer, test)


def test_deploy_without_changes_is_not_offered(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(shown: Board) -> None:
        await deployed(shown)
        await shown.press("escape", "D")
        await shown.shows("no changes: this version is already live")
        screen = shown.app.screen
        assert isinstance(screen, DeployScreen)
        await shown.press("enter")
        assert screen.deploy_log.phase == "planned"

    run(opened, shop, desk.deployer, test)


def test_failed_build_shows_error_and_can_be_planned_again(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(shown: Board) -> None:
        (shop.root / "site").rename(shop.root / "elsewhere")
        await shown.press("D")
        screen = shown.app.screen
        assert isinstance(screen, DeployScreen)
        await shown.until(lambda: screen.deploy_log.phase == "failed")
        assert "site" in shown.text
        (shop.root / "elsewhere").rename(shop.root / "site")
        await shown.press("r")
        await shown.until(lambda: screen.deploy_log.phase == "planned")

    run(opened, shop, desk.deployer, test)


ENDLESS = """[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
build = "touch begun; sleep 600"
"""


def test_back_cancels_build(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory, tmp_path: Path
) -> None:
    root = tmp_path / "endless"
    root.mkdir()
    (root / "svc.toml").write_text(ENDLESS)
    login = Credentials(hosted.control, hosted.control, token=hosted.token)
    deployer = ConsoleDeployer(
        "shop", lambda: login, ProjectFiles(root, tmp_path / "endless-cache", lambda _: None)
    )

    async def test(shown: Board) -> None:
        await shown.pilot.press("D")
        await shown.until((root / "begun").exists)
        await shown.pilot.press("escape")
        await shown.until(lambda: shown.app.screen is shown.screen)

    run(opened, shop, deployer, test)  # It ends when the thread of the build ends.


def test_history_shows_difference_and_rolls_back(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(shown: Board) -> None:
        await deployed(shown)
        await shown.press("escape")
        (shop.root / "site" / "index.html").write_text("two")
        await deployed(shown)
        assert hosted.get().text == "two"
        await shown.press("escape", "H")
        screen = shown.app.screen
        assert isinstance(screen, HistoryScreen)
        await shown.shows("is live")
        await shown.press("j")
        await shown.shows("~ web")
        await shown.press("r", *"two", "escape")
        assert hosted.get().text == "two"
        await shown.press("r", *"bad", "enter")
        await shown.shows("rolled back 20")
        assert hosted.get().text == "one" and ": bad" in shown.text
        await shown.press("escape")
        assert shown.app.screen is shown.screen

    run(opened, shop, desk.deployer, test)


def logged_out() -> Credentials:
    raise NotLoggedIn("you are not logged in", "Log in with `svc login URL`.")


def test_deploy_without_session_shows_login_hint(
    opened: Opened, shop: Shop, tmp_path: Path, snapshot: Snapshot
) -> None:
    deployer = ConsoleDeployer(
        "shop", logged_out, ProjectFiles(shop.root, tmp_path / "deploy-cache", lambda _: None)
    )

    async def test(shown: Board) -> None:
        await shown.press("D")
        await shown.shows("you are not logged in")
        await idle(shown.pilot)
        snapshot(shown.app)
        await shown.press("escape", "H")
        await shown.shows("Log in with `svc login URL`.")

    run(opened, shop, deployer, test)


def test_without_project_files_only_history_is_available(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    deployer = ConsoleDeployer(
        "shop", lambda: Credentials(hosted.control, hosted.control, token=hosted.token), None
    )

    async def test(shown: Board) -> None:
        await shown.press("D")
        assert shown.app.screen is shown.screen
        await shown.press("H")
        assert isinstance(shown.app.screen, HistoryScreen)
        await shown.shows("No deployments yet")

    run(opened, shop, deployer, test)


def test_plan_reports_unsaved_edits(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(shown: Board) -> None:
        await shown.press("tab", "d", "D")
        await shown.shows("1 edit of svc.toml is unsaved and not part of this deploy")
        await shown.press("escape")
        assert shown.screen.pending == 1

    run(opened, shop, desk.deployer, test)


def test_deployed_project_is_read_only(
    opened: Opened, shop: Shop, hosted: Hosted, desk: DeployerFactory, snapshot: Snapshot
) -> None:
    async def deploys(shown: Board) -> None:
        await deployed(shown)

    run(opened, shop, desk.deployer, deploys)

    async def test(shown: Board) -> None:
        await shown.press("tab", "d", "e", "c")
        assert shown.screen.pending == 0 and not shown.screen.panel.prompting
        await shown.shows("This is the live version")
        shown.screen.navigate(["docs"])
        await idle(shown.pilot)
        snapshot(shown.app)

    place = ConnectionInfo("shop", "service", "https://svc.example.com")
    asyncio.run(board(opened, ProjectClient(place, lambda: Client(hosted.control, hosted.token)), test))
