"""The Console application over an embedded engine."""

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus
from textual.widgets import Input, OptionList, Static

from engine.dev.project import BuildFinished
from engine.errors import SvcError
from engine.http.sockets import bind
from engine.lane import BuildFailed, Diagnostic
from screens.board.screen import BoardScreen
from screens.console_screen import ConsoleScreen
from screens.logs.request_view import RequestView
from screens.logs.screen import FilterLine
from screens.overlays import CommandLine, HelpScreen
from screens.widgets.virtual_list import VirtualRows
from svc_tui.console.app import Console, binding_ids
from svc_tui.console.engine import EmbeddedEngine, RunningDevServer, _NotifyReporter, connect_folder
from svc_tui.console.start import LoginActions, UserFile, read_keymap
from tests.support.screens import SECONDS, text, until
from tests.svc_tui.console_app import opened, write_project

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "console-keys.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return write_project(tmp_path, monkeypatch)


async def body(url: str) -> bytes:
    """Return the response of a URL after the project was built."""

    def read() -> bytes:
        end = time.monotonic() + SECONDS
        while True:
            try:
                with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    return await asyncio.to_thread(read)


def top(app: Console) -> str:
    return str(app.screen.query_one("#where").render())


async def test_console_runs_project_and_shows_state(project: Path) -> None:
    async with opened(project) as (app, pilot, attachment):
        assert "starting" in top(app)
        await until(pilot, lambda: "● live" in top(app))
        assert f"shop ─ dev {attachment.info.address}" in top(app)
        assert await body(attachment.info.address) == b"hello"


async def test_early_requests_wait_for_engine(project: Path) -> None:
    sockets = bind("localhost", 0)
    attachment = EmbeddedEngine(project, "shop", sockets)
    with socket.create_connection(("127.0.0.1", sockets[0].getsockname()[1]), timeout=SECONDS) as early:
        early.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        attachment.start(lambda severity, message, hint: None)
        try:
            answer = await asyncio.to_thread(lambda: early.makefile("rb").read())
        finally:
            await asyncio.to_thread(attachment.stop)
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))  # 503: not built yet, retry.


async def test_tab_keys_switch_and_top_line_shows_tab(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        for key, tab in (("2", "tables"), ("3", "logs"), ("1", "board")):
            await pilot.press(key)
            assert isinstance(app.screen, ConsoleScreen) and tab == app.screen.TAB
        await pilot.click("#tabs", offset=(12, 0))
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "tables"


async def test_narrow_terminal_shows_state_and_tabs(project: Path) -> None:
    async with opened(project, size=(60, 20)) as (app, pilot, _):
        await until(pilot, lambda: "● live" in top(app))
        assert "http" not in top(app)
        assert "1 Board  2 3 4 5" in str(app.screen.query_one("#tabs").render())


@pytest.mark.parametrize(
    ("width", "state"), [(40, "○ lost"), (60, "○ lost, reconnecting"), (96, "○ lost, reconnecting")]
)
async def test_top_line_shows_lost_connection_at_any_width(
    project: Path, monkeypatch: pytest.MonkeyPatch, width: int, state: str
) -> None:
    async with opened(project, size=(width, 20)) as (app, pilot, _):
        await until(pilot, lambda: "● live" in top(app))
        monkeypatch.setattr(app._client, "reconnect", lambda: None)
        monkeypatch.setattr(app._client, "state", "lost")
        app.screen.update_top()  # type: ignore[attr-defined]
        await pilot.pause()
        line = text(app).splitlines()[0]
        assert f"─ dev {state} " in line and "1 Board" in line and " 3" in line


def messages(app: Console) -> list[tuple[str, str]]:
    """Return the text and tone of each message so far. Notifications expire."""
    return [(text, tone) for _, text, tone in app._client.activity._actions]


async def test_command_line_opens_tabs(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        await pilot.press("colon")
        assert isinstance(app.screen, CommandLine)
        await pilot.press(*"logs", "enter")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "logs"
        await pilot.press("colon", *"tables", "enter", "colon", "up", "up", "enter")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "logs"


async def test_command_line_completes_and_takes_unambiguous_beginnings(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        await pilot.press("colon", *"the", "tab")
        line = app.screen.query_one(Input)
        assert line.value == "theme "
        await pilot.press(*"svc-l", "tab")
        assert line.value == "theme svc-light"
        await pilot.press("enter")
        assert app.theme == "svc-light"
        await pilot.press("colon", *"lo", "enter")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "logs"
        await pilot.press("colon", *"bord", "enter")
        await until(pilot, lambda: any('Did you mean "board"?' in text for text, _ in messages(app)))
        await until(pilot, lambda: isinstance(app.screen, CommandLine))
        await pilot.press("q")
        assert app.screen.query_one(Input).value == "bordq"
        app.screen.query_one(Input).value = "board"
        await pilot.press("enter")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "board"


async def test_tabs_open_from_an_open_request(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        await pilot.press("3")
        app.push_screen(RequestView(app._client, "01m7yem5mdc789z6xby9xaphxr"))
        await pilot.press("1")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "board"
        await pilot.press("3")
        assert isinstance(app.screen, RequestView)
        await pilot.press("3")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "logs"
        app.push_screen(RequestView(app._client, "01m7yem5mdc789z6xby9xaphxr"))
        await pilot.press("1")
        app._open_tab("logs", ["level:error"])
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "logs")


async def test_help_lists_keys_of_rows_behind_those_of_the_tab(project: Path) -> None:
    async with opened(project, size=(120, 40)) as (app, pilot, _):
        await pilot.press("2")
        await until(pilot, lambda: "● live" in top(app))
        await pilot.press("question_mark")
        about, *halves = (str(part.render()) for part in app.screen.query(Static))
        assert "\n" not in about
        text = "\n".join(halves)
        assert text.index("Tables") < text.index("Rows") < text.index("Everywhere")
        assert "Mark" in text and "Last row" in text
        assert len(halves) == 2


def test_build_error_is_notified_with_file_and_line() -> None:
    notes: list[tuple[str, ...]] = []
    reporter = _NotifyReporter(lambda *note: notes.append(note))
    first = Diagnostic('Expected identifier but found "{"', "js/src/index.js", 37, 17)
    error = BuildFailed("resource js does not build: 2 errors", diagnostics=(first, Diagnostic("more")))
    reporter.built(BuildFinished(resource="js", seconds=0.1, error=error, rebuild=True))
    reporter.built(BuildFinished(resource="js", seconds=0.1, error=None, rebuild=True, recovered=True))
    reporter.built(BuildFinished(resource="js", seconds=0.1, error=None, rebuild=True))
    assert [note[1] for note in notes] == [
        'js: js/src/index.js:37:17  Expected identifier but found "{" (and 1 more)',
        "js builds again",
    ]


async def test_theme_is_remembered(project: Path, tmp_path: Path) -> None:
    look = UserFile(tmp_path / "own folder" / "theme")
    async with opened(project, look=look) as (app, pilot, _):
        assert app.theme == "svc-dark"
        await pilot.press("colon")
        app.screen.query_one("Input").value = "theme svc-light"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: look.read() == "svc-light")
    async with opened(project, look=look) as (app, _, _):
        assert app.theme == "svc-light"
    look.write("a look that is gone")
    async with opened(project, look=look) as (app, _, _):
        assert app.theme == "svc-dark"


@pytest.mark.parametrize("line", ["nonsense", 'logs "open', "theme", "theme nonsense"])
async def test_invalid_command_shows_error(project: Path, line: str) -> None:
    async with opened(project) as (app, pilot, _):
        await pilot.press("colon")
        app.screen.query_one("Input").value = line  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: any(tone == "bad" for _, tone in messages(app)))
        await until(pilot, lambda: isinstance(app.screen, CommandLine))
        assert app.screen.query_one(Input).value == line


async def test_footer_shows_keys_that_fit_and_work(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        foot = lambda: text(app).splitlines()[-1].strip()  # noqa: E731
        await pilot.press("3")
        await until(
            pilot, lambda: foot() == "/ Search  f Filter  e Next error  r Replay  p Pause  ? Keys  q Quit"
        )
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: foot() == "/ Search f Filter e Next error r Replay ? Keys q Quit")
        await pilot.press("f")
        await until(pilot, lambda: foot() == "enter Accept esc Back f1 Keys")
        await pilot.press("question_mark")
        assert app.screen.query_one(FilterLine).value == "?"
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_console_in_the_background_shows_its_keys_and_has_a_focus_later(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        app.post_message(AppBlur())
        await until(pilot, lambda: not app.app_focus)
        app.switch_mode("tables")
        await until(pilot, lambda: "t Table" in text(app).splitlines()[-1])
        app.post_message(AppFocus())
        await until(pilot, lambda: isinstance(app.focused, VirtualRows))


async def test_activity_shows_changes_and_messages(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        client = app._client
        await until(pilot, lambda: client.state == "live")
        statement = {"sql": "create table t (id integer primary key)", "write": True}
        await client.call("POST", "/sql", statement)
        await client.call("POST", "/sql", {"sql": "select 1", "write": False})
        with pytest.raises(SvcError):
            await client.call("POST", "/sql", statement)
        app.notify("copied\na value", severity="warning")
        await pilot.press("at")
        await until(pilot, lambda: "copied · a value" in text(app))
        rows = text(app).splitlines()[1:5]
        assert "copied · a value" in rows[0] and "table t already exists" in rows[1]
        assert "POST /sql" in rows[2] and rows[2].endswith("ms") and "POST" not in rows[3]
        await pilot.press("escape")
        assert isinstance(app.screen, ConsoleScreen)


async def test_help_shows_active_keys(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        result = "".join(str(part.render()) for part in app.screen.query("Static"))
        assert "Board" in result and "Command line" in result and "Focus Next" not in result
        await pilot.press("escape")
        assert isinstance(app.screen, ConsoleScreen)


async def test_palette_lists_what_keys_do_and_values_of_commands_on_one_line_each(project: Path) -> None:
    async with opened(project) as (app, pilot, _):
        board = app.screen
        assert isinstance(board, BoardScreen)
        await until(pilot, lambda: board.canvas.selected is not None)
        await pilot.press("ctrl+p")
        options = app.screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count > 10)
        titles = [str(options.get_option_at_index(at).prompt) for at in range(options.option_count)]
        assert len(set(titles)) == len(titles) and not any("\n" in title for title in titles)
        assert titles[0].split() == ["Connect", "c"]
        assert not any(title.startswith(("Down", "Page")) for title in titles)
        assert "Theme" in titles and not any(title.startswith("theme ") for title in titles)
        await pilot.press(*"theme")
        await until(pilot, lambda: str(options.get_option_at_index(0).prompt) == "Theme")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CommandLine))
        await pilot.press(*"svc-light", "enter")
        await until(pilot, lambda: app.theme == "svc-light")


async def test_engine_restarts_on_same_port(project: Path) -> None:
    async with opened(project) as (app, pilot, attachment):
        await until(pilot, lambda: "● live" in top(app))
        screen, client, shown, states = app.screen, app._client, app._client._on_state, list[str]()

        def notice() -> None:
            states.append(client.state)
            shown()

        client._on_state = notice
        await asyncio.to_thread(attachment.stop)
        with suppress(SvcError):  # A poll of the Console may have started the engine again.
            await client.call("GET", "/tables")
        await until(pilot, lambda: states[-1:] == ["live"] and "● live" in top(app))
        assert states[0] == "lost" and app.screen is screen
        assert await body(attachment.info.address) == b"hello"


async def test_console_shows_running_dev_server(project: Path) -> None:
    other = EmbeddedEngine(project, "shop", bind("localhost", 0))
    other.start(lambda severity, message, hint: None)
    await asyncio.to_thread(lambda: other.connect().__exit__(None, None, None))
    try:
        attached = await asyncio.to_thread(connect_folder, project, None)
        assert isinstance(attached, RunningDevServer)
        app = Console(attached, LoginActions())
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: "● live" in top(app))
            assert f"shop ─ dev {other.info.address} ● live" in top(app)
    finally:
        await asyncio.to_thread(other.stop)
    assert "engine" not in {thread.name for thread in threading.enumerate()}


async def test_keymap_overrides_keys(project: Path) -> None:
    async with opened(project, {"console.logs": "l,x"}) as (app, pilot, _):
        await pilot.press("3")
        assert isinstance(app.screen, ConsoleScreen) and app.screen.TAB == "board"
        await pilot.press("x")
        assert app.screen.TAB == "logs"


def test_every_key_is_documented() -> None:
    text = DOCS.read_text()
    assert sorted(name for name in binding_ids() if f"`{name}`" not in text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"console.bord" = "x"', "console.board"),
        ('"console.board" = 3', "Write them in quotes"),
        ('"console.board" = ""', "Write them in quotes"),
        ("console.board = = x", "not valid TOML"),
    ],
)
def test_invalid_keymap_raises_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(SvcError) as exc_info:
        read_keymap(tmp_path, binding_ids())
    assert (
        message in f"{exc_info.value.message} {exc_info.value.hint}" and "keys.toml" in exc_info.value.message
    )


def test_keymap_file_is_optional(tmp_path: Path) -> None:
    assert read_keymap(tmp_path, binding_ids()) == {}
    (tmp_path / "keys.toml").write_text('"rows.down" = "n,down"\n', "utf-8-sig")
    assert read_keymap(tmp_path, binding_ids()) == {"rows.down": "n,down"}
