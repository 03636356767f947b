"""Deploys and rollbacks from the Board, with the real client and a real service."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from screens.board import screen as board_screen
from screens.board.deploy_screen import DeployScreen, HistoryScreen
from screens.board.deployment import BoardDeployer
from screens.project_client import ConnectionInfo, ProjectClient
from svc_tui.client import Client
from svc_tui.client.credentials import Credentials, NotLoggedIn
from svc_tui.console.deployer import ConsoleDeployer, ProjectFiles
from tests.screens.board.board import Board, board
from tests.screens.dev_project import Shop
from tests.support.screens import OpenApp, idle
from tests.svc_tui.hosted import PASSWORD, Hosted

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


def run(open_app: OpenApp, shop: Shop, deployer: BoardDeployer, test: Test) -> None:
    asyncio.run(board(open_app, shop, test, deployer=deployer))


async def deployed(ui: Board) -> None:
    await ui.press("D")
    await ui.shows("to upload")
    await ui.press("enter")
    await ui.shows("is live")


def test_deploy_shows_plan_and_starts_on_enter(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(ui: Board) -> None:
        await ui.press("D")
        screen = ui.app.screen
        assert isinstance(screen, DeployScreen)
        await ui.until(lambda: screen.deploy_log.phase == "planned")
        assert "first deploy to http://127.0.0.1" in ui.text and "+ web" in ui.text
        await ui.press("D")
        assert screen.deploy_log.phase == "planned"
        await ui.press("m", *"hello", "enter", "enter")
        await ui.until(lambda: screen.deploy_log.phase == "live")
        assert "http://web--shop.apps.example:8080" in ui.text
        assert "private, mounted at web:/docs/*" in ui.text
        assert hosted.get().text == "one" and desk.belongs == [hosted.control]
        (done,) = screen.client.activity.lines()
        assert screen.deploy_log.live is not None
        live = screen.deploy_log.live["deployment"]["id"]
        assert done[-1] == (f"deployed: {live} is live", "good")
        await ui.press("escape")
        assert ui.app.screen is ui.screen

    run(open_app, shop, desk.deployer, test)


def test_deploy_without_changes_is_not_offered(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(ui: Board) -> None:
        await deployed(ui)
        await ui.press("escape", "D")
        await ui.shows("no changes: this version is already live")
        screen = ui.app.screen
        assert isinstance(screen, DeployScreen)
        await ui.press("enter")
        assert screen.deploy_log.phase == "planned"

    run(open_app, shop, desk.deployer, test)


def test_failed_build_shows_error_and_can_be_planned_again(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(ui: Board) -> None:
        (shop.root / "site").rename(shop.root / "elsewhere")
        await ui.press("D")
        screen = ui.app.screen
        assert isinstance(screen, DeployScreen)
        await ui.until(lambda: screen.deploy_log.phase == "failed")
        assert "site" in ui.text
        (shop.root / "elsewhere").rename(shop.root / "site")
        await ui.press("r")
        await ui.until(lambda: screen.deploy_log.phase == "planned")

    run(open_app, shop, desk.deployer, test)


ENDLESS = """[project]
name = "shop"

[resource.web]
lane = "static"
public = true
output = "site"
build = "touch begun; sleep 600"
"""


def test_back_cancels_build(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory, tmp_path: Path
) -> None:
    root = tmp_path / "endless"
    root.mkdir()
    (root / "svc.toml").write_text(ENDLESS)
    login = Credentials(hosted.control, hosted.control, token=hosted.token)
    deployer = ConsoleDeployer(
        "shop", lambda: login, ProjectFiles(root, tmp_path / "endless-cache", lambda _: None)
    )

    async def test(ui: Board) -> None:
        await ui.pilot.press("D")
        await ui.until((root / "begun").exists)
        await ui.pilot.press("escape")
        await ui.until(lambda: ui.app.screen is ui.screen)

    run(open_app, shop, deployer, test)  # It ends when the thread of the build ends.


def test_history_shows_difference_and_rolls_back(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(ui: Board) -> None:
        await deployed(ui)
        await ui.press("escape")
        (shop.root / "site" / "index.html").write_text("two")
        await deployed(ui)
        assert hosted.get().text == "two"
        await ui.press("escape", "H")
        screen = ui.app.screen
        assert isinstance(screen, HistoryScreen)
        await ui.shows("is live")
        await ui.press("j")
        await ui.shows("~ web")
        await ui.press("r", *"two", "escape")
        assert hosted.get().text == "two"
        await ui.press("r", *"bad", "enter")
        await ui.shows("rolled back 20")
        assert hosted.get().text == "one" and ": bad" in ui.text
        await ui.press("escape")
        assert ui.app.screen is ui.screen

    run(open_app, shop, desk.deployer, test)


def logged_out() -> Credentials:
    raise NotLoggedIn("you are not logged in", "Log in with `svc login URL`.")


def test_deploy_without_session_shows_login_hint(
    open_app: OpenApp, shop: Shop, tmp_path: Path, snapshot: Snapshot
) -> None:
    deployer = ConsoleDeployer(
        "shop", logged_out, ProjectFiles(shop.root, tmp_path / "deploy-cache", lambda _: None)
    )

    async def test(ui: Board) -> None:
        await ui.press("D")
        await ui.shows("you are not logged in")
        await idle(ui.pilot)
        snapshot(ui.app)
        await ui.press("escape", "H")
        await ui.shows("Press ctrl+l to log in.")

    run(open_app, shop, deployer, test)


def test_without_project_files_only_history_is_available(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    deployer = ConsoleDeployer(
        "shop", lambda: Credentials(hosted.control, hosted.control, token=hosted.token), None
    )

    async def test(ui: Board) -> None:
        await ui.press("D")
        assert ui.app.screen is ui.screen
        await ui.press("H")
        assert isinstance(ui.app.screen, HistoryScreen)
        await ui.shows("No deployments yet")

    run(open_app, shop, deployer, test)


def test_plan_reports_unsaved_edits(
    open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory
) -> None:
    async def test(ui: Board) -> None:
        await ui.press("tab", "d", "D")
        await ui.shows("1 edit of svc.toml is unsaved and not part of this deploy")
        await ui.press("escape")
        assert ui.screen.pending == 1

    run(open_app, shop, desk.deployer, test)


@pytest.fixture
def live(open_app: OpenApp, shop: Shop, hosted: Hosted, desk: DeployerFactory) -> Hosted:
    """A service with the shop deployed; blog has a page for each mount of a test."""
    for name in ("blog", "ann", "bob"):
        (shop.root / "posts" / name).mkdir(parents=True)
        (shop.root / "posts" / name / "index.html").write_text(f"posts of {name}")
    before, _, blog = shop.manifest.partition("[resource.blog]")
    shop.write(f"{before}[resource.blog]{blog.replace('site', 'posts')}")
    run(open_app, shop, desk.deployer, deployed)
    return hosted


def on_service(hosted: Hosted, user: str = "ann", role: str = "owner") -> ProjectClient:
    """Return a client of the deployed shop for a user; adds other users than the owner."""
    token = hosted.token
    if user != "ann":
        with Client(hosted.control, token) as owner:
            owner.call("PUT", f"/v1/users/{user}", {"password": PASSWORD, "roles": {"shop": role}})
            token = owner.call("POST", "/v1/login", {"user": user, "password": PASSWORD})["token"]
    place = ConnectionInfo("shop", "service", "https://svc.example.com")
    return ProjectClient(place, lambda: Client(hosted.control, token))


async def draw(ui: Board, pattern: str) -> None:
    """Stage a mount of blog in web."""
    ui.screen.navigate(["web"])
    await ui.press("c", "enter", "ctrl+u", *pattern, "enter")
    await ui.shows("1 unsaved edit: ctrl+s activates a deployment", pattern)


def test_deployed_project_is_read_only_for_viewers(
    open_app: OpenApp, live: Hosted, snapshot: Snapshot
) -> None:
    async def test(ui: Board) -> None:
        await ui.press("tab", "d", "e", "c")
        assert ui.screen.pending == 0 and not ui.screen.panel.prompting
        await ui.shows("You can view this live version")
        ui.screen.navigate(["docs"])
        await idle(ui.pilot)
        snapshot(ui.app)

    asyncio.run(board(open_app, on_service(live, "eve", "viewer"), test))


def test_edge_drawn_on_a_service_activates_a_deployment_and_undo_another(
    open_app: OpenApp, live: Hosted, snapshot: Snapshot
) -> None:
    async def test(ui: Board) -> None:
        await draw(ui, "/blog/*")
        snapshot(ui.app)
        assert live.get("/blog/index.html").status_code == 404
        await ui.press("ctrl+s")
        await ui.until(lambda: "activated a deployment" in " ".join(ui.app.messages))
        assert live.get("/blog/index.html").text == "posts of blog"
        await ui.press("u")
        await ui.shows(
            "ctrl+s activates a deployment", '-mounts = { "/docs/*" = "docs", "/blog/*" = "blog" }'
        )
        await ui.press("ctrl+s")
        await ui.until(lambda: len(ui.app.messages) == 2)
        assert live.get("/blog/index.html").status_code == 404
        with Client(live.control, live.token) as client:
            listed = client.call("GET", "/v1/projects/shop/deployments")["deployments"]
        assert [each["message"] for each in listed] == [
            "unmount web:/blog/* (Console)",
            "mount web:/blog/* → blog (Console)",
            "",
        ]

    asyncio.run(board(open_app, on_service(live), test))


def test_poll_while_an_edit_is_saved_does_not_report_the_edit_as_one_of_others(
    open_app: OpenApp, live: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_screen, "POLL_SECONDS", 3600.0)
    client = on_service(live)

    async def test(ui: Board) -> None:
        await draw(ui, "/blog/*")
        call, manifest = client.call, ui.screen._model.manifest

        async def activated_before_the_response(method: str, path: str, body: Any = None) -> Any:
            response = await call(method, path, body)
            if path == "/manifest/write":
                ui.screen._poll()
                await ui.until(lambda: ui.screen._model.manifest.digest != manifest.digest)
            return response

        monkeypatch.setattr(client, "call", activated_before_the_response)
        await ui.press("ctrl+s")
        (message,) = ui.app.messages
        assert "activated a deployment" in message

    asyncio.run(board(open_app, client, test))


def test_of_two_people_who_draw_at_once_one_wins_and_the_other_sees_why(
    open_app: OpenApp, live: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_screen, "POLL_SECONDS", 3600.0)

    async def both() -> None:
        staged, activated = asyncio.Event(), asyncio.Event()

        async def ann(ui: Board) -> None:
            await draw(ui, "/ann/*")
            await staged.wait()
            await ui.press("ctrl+s")
            assert "activated a deployment" in ui.app.messages[0]
            activated.set()

        async def bob(ui: Board) -> None:
            await draw(ui, "/bob/*")
            staged.set()
            await activated.wait()
            await ui.press("ctrl+s")
            (reason,) = ui.app.messages
            assert "ann deployed" in reason and "(mount web:/ann/* → blog (Console))" in reason
            assert live.get("/bob/index.html").status_code == 404
            await ui.shows("1 unsaved edit", '-mounts = { "/docs/*" = "docs", "/ann/*" = "blog" }')
            await ui.press("ctrl+s")
            await ui.until(lambda: "activated a deployment" in ui.app.messages[-1])

        await asyncio.gather(
            board(open_app, on_service(live), ann),
            board(open_app, on_service(live, "bob", "deployer"), bob, size=(120, 30)),
        )

    asyncio.run(both())
    for name in ("ann", "bob"):
        assert live.get(f"/{name}/index.html").text == f"posts of {name}"


def test_unsaved_edit_names_who_changed_the_live_deployment(open_app: OpenApp, live: Hosted) -> None:
    async def test(ui: Board) -> None:
        await draw(ui, "/blog/*")
        client = on_service(live, "bob", "deployer")
        client.reconnect()
        change = {"op": "add", "resource": "web", "pattern": "/blog/*", "target": "docs"}
        plan = await client.call("POST", "/manifest/plan", {"changes": [change]})
        await client.call("POST", "/manifest/write", {"changes": [change], "digest": plan["digest"]})
        client.disconnect()
        await ui.shows("the live deployment has changed", "web has docs mounted at /blog/* already")
        assert "bob activated" in ui.app.messages[0] and "mount web:/blog/* → docs" in ui.app.messages[0]

    asyncio.run(board(open_app, on_service(live), test))


def test_deploy_that_would_undo_a_drawn_mount_asks_first(
    open_app: OpenApp, shop: Shop, live: Hosted, desk: DeployerFactory
) -> None:
    async def draws(ui: Board) -> None:
        await draw(ui, "/blog/*")
        await ui.press("ctrl+s")
        await ui.until(lambda: bool(ui.app.messages))

    async def deploys(ui: Board) -> None:
        await ui.press("D")
        await ui.shows("! web  /blog/* → blog, drawn by ann in ", "press A to allow them")
        screen = ui.app.screen
        assert isinstance(screen, DeployScreen)
        await ui.press("enter")
        assert screen.deploy_log.phase == "planned"
        await ui.press("A", "enter")
        await ui.shows("is live")

    asyncio.run(board(open_app, on_service(live), draws))
    asyncio.run(board(open_app, shop, deploys, size=(120, 30), deployer=desk.deployer))
    assert live.get("/blog/index.html").status_code == 404
