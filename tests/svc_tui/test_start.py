"""The start screen over a real folder and a real service."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from engine.manifest.load import load
from svc_tui.console.app import Choice, CreateScreen, LoginApp, LoginScreen, StartApp
from svc_tui.console.start import LoginActions, StartActions
from svc_tui.project.resource_starter import FRAMEWORKS
from svc_tui.project.scaffold import TEMPLATES, templates
from tests.support.screens import text, until
from tests.svc_tui.hosted import MANIFEST, PASSWORD, Hosted, deploy

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SVC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    folder = tmp_path / "here ü"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    with Hosted(tmp_path / "data") as service:
        yield service


@asynccontextmanager
async def opened(
    workdir: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[StartApp, Pilot[Choice]]]:
    app = StartApp("~/here", StartActions(workdir), LoginActions(), {})
    app.animation_level = "none"
    async with app.run_test(size=size) as pilot:
        yield app, pilot


def options(app: StartApp) -> list[str]:
    return [str(option.id) for option in app.screen.query_one(OptionList).options]


def test_start_screen_offers_every_template() -> None:
    assert set(TEMPLATES) == {*templates(), *FRAMEWORKS}


async def test_project_is_created_and_opened(workdir: Path) -> None:
    async with opened(workdir) as (app, pilot):
        await pilot.press("n", *"shop", "tab", "end", "enter")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == Choice("shop", created=True)
    assert load(workdir / "shop").name == "shop"


@pytest.mark.parametrize("width", [40, 60, 80])
async def test_wrapped_template_texts_are_indented(workdir: Path, width: int) -> None:
    async with opened(workdir, (width, 40)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, CreateScreen) and "notes" in text(app))
        region = app.screen.query_one(OptionList).content_region
        lines = [line[region.x : region.right] for line in text(app).splitlines()[region.y : region.bottom]]
        indent = max(len(name) for name in TEMPLATES) + 2
        names = [name for line in lines if (name := line[:indent].strip())]
        assert names and names == list(TEMPLATES)[: len(names)]
        assert all(line[indent] != " " for line in lines)


async def test_invalid_project_name_shows_error(workdir: Path) -> None:
    (workdir / "taken").mkdir()
    (workdir / "taken" / "file").write_text("mine")
    async with opened(workdir) as (app, pilot):
        await pilot.press("n", *"Not_good", "enter")
        await until(pilot, lambda: bool(str(app.screen.query_one("#wrong").render())))
        assert "is not a valid project name" in str(app.screen.query_one("#wrong").render())
        app.screen.query_one(Input).value = "taken"
        await pilot.press("enter")
        await until(pilot, lambda: "not empty" in str(app.screen.query_one("#wrong").render()))
        assert isinstance(app.screen, CreateScreen)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value is None
    assert [path.name for path in workdir.rglob("*")] == ["taken", "file"]


async def test_first_owner_logs_in_with_claim_code(workdir: Path, hosted: Hosted) -> None:
    async with opened(workdir) as (app, pilot):
        await pilot.press("l")
        assert isinstance(app.screen, LoginScreen)
        for field, value in (("url", hosted.control), ("user", "ana"), ("password", PASSWORD)):
            app.screen.query_one(f"#{field}", Input).value = value
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "claim code" in str(app.screen.query_one("#wrong").render()))
        app.screen.query_one("#code", Input).value = hosted.output[0].rpartition(" ")[2]
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, LoginScreen))
        assert options(app) == ["create", "login"]
        await pilot.press("q")


async def test_missing_session_opens_login_dialog(workdir: Path, hosted: Hosted) -> None:
    def claim() -> None:
        hosted.claim().__exit__(None, None, None)

    await asyncio.to_thread(claim)
    app = LoginApp(LoginActions(), {})
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(app.screen, LoginScreen)
        for field, value in (("url", hosted.control), ("user", "ann"), ("password", PASSWORD)):
            app.screen.query_one(f"#{field}", Input).value = value
        await pilot.press("ctrl+s")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == hosted.control
    assert LoginActions().last_url() == hosted.control


async def test_service_that_does_not_answer_is_named_beside_the_login(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVC_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SVC_TOKEN", "token")
    async with opened(workdir) as (app, pilot):
        login = app.screen.query_one(OptionList)
        await until(pilot, lambda: "does not answer" in str(login.get_option("login").prompt))
        assert not app._notifications
        await pilot.press("q")


async def test_canceled_login_returns_none(workdir: Path) -> None:
    app = LoginApp(LoginActions(), {})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("escape")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value is None


async def test_deployed_project_can_be_opened(workdir: Path, hosted: Hosted, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    (root / "site").mkdir(parents=True)
    (root / "site" / "index.html").write_text("hello")
    (root / "svc.toml").write_text(MANIFEST)

    def live() -> None:
        with hosted.claim() as client:
            deploy(client, root)

    await asyncio.to_thread(live)
    async with opened(workdir) as (app, pilot):
        await pilot.press("l")
        for field, value in (("url", hosted.control), ("user", "ann"), ("password", "wrong password")):
            app.screen.query_one(f"#{field}", Input).value = value
        await pilot.press("ctrl+s")
        await until(pilot, lambda: bool(str(app.screen.query_one("#wrong").render())))
        app.screen.query_one("#password", Input).value = PASSWORD
        await pilot.press("ctrl+s")
        await until(pilot, lambda: not isinstance(app.screen, LoginScreen))
        await until(pilot, lambda: "open shop" in options(app))
        await pilot.press("end", "enter")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == Choice("shop", created=False)


class ManyProjects(StartActions):
    """A service with 300 projects."""

    def deployed_projects(self) -> tuple[str, list[str]]:
        return "svc.example", [f"shop-{number:03}" for number in range(300)]


async def test_search_finds_one_of_many_projects(workdir: Path) -> None:
    app = StartApp("~/here", ManyProjects(workdir), LoginActions(), {})
    app.animation_level = "none"
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: len(options(app)) == 302)
        await pilot.press("/", *"P-23")
        await until(pilot, lambda: len(options(app)) == 12)
        await pilot.press("escape")
        await until(pilot, lambda: len(options(app)) == 302)
        await pilot.press("slash", *"nothing", "enter")
        assert options(app) == ["create", "login"] and app.is_running
        await pilot.press("escape", "slash", *"231", "enter")
        await until(pilot, lambda: not app.is_running)
    assert app.return_value == Choice("shop-231", created=False)
