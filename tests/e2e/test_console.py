"""The Console end to end: the real program in a real terminal."""

import os
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.dev_server import dev_server
from tests.support.service import prepare
from tests.support.terminal import SECONDS, Terminal, terminal

pytestmark = pytest.mark.slow
SVC = (sys.executable, "-m", "svc_tui")
OpenConsole = Callable[..., AbstractContextManager[Terminal]]
TABS = (
    ("2 Tables", "no tables yet"),
    ("3 Logs", "Filter"),
    ("4 Jobs", "No jobs"),
    ("5 Files", "No files"),
    ("1 Board", "ready"),
)
"""Tabs, and what each shows of a project without tables."""


def created(folder: Path) -> Path:
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("hello")
    (folder / "svc.toml").write_text(
        '[project]\nname = "shop"\n\n# What people see.\n[resource.web]\nlane = "static"\npublic = true\n'
        'output = "site"\n'
    )
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return created(tmp_path / "my shop ü")


@pytest.fixture(scope="module")
def open_console(home: Path) -> OpenConsole:
    @contextmanager
    def open_console(
        folder: Path, *options: str, size: tuple[int, int] = (100, 30), **environ: str
    ) -> Iterator[Terminal]:
        words = ("console", *options) if options else ()
        with terminal([*SVC, *words], folder, {"SVC_HOME": str(home), **environ}, size) as console:
            console.until("1 Board")
            yield console

    return open_console


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return created(tmp_path_factory.mktemp("console") / "my shop ü")


@pytest.fixture(scope="module")
def console(shared_shop: Path, open_console: OpenConsole) -> Iterator[Terminal]:
    """A Console for the tests that leave it running; the last one quits it."""
    with open_console(shared_shop, "--port", "0") as console:
        console.until("● live")
        yield console


def svc(folder: Path, home: Path, *words: str) -> str:
    return prepare(folder, os.environ | {"SVC_HOME": str(home)}, *words)


def address(console: Terminal) -> str:
    """Return the engine's URL from the top line of a wide screen."""
    match = re.search(r"http://localhost:\d+", console.until("● live"))
    assert match, console.screen()
    return match[0]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def wait_for_exit(process: int) -> None:
    end = time.monotonic() + SECONDS
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < end, f"{process} still runs"
        time.sleep(0.02)


def test_mouse_works(console: Terminal) -> None:
    for tab, text in TABS:
        top = console.until("● live").splitlines()[0]
        at = f"\x1b[<0;{top.index(tab) + 3};1"
        console.type(f"{at}M{at}m")
        console.until(text)


def test_invalid_manifest_shows_error_and_changes_nothing(shared_shop: Path, console: Terminal) -> None:
    manifest = shared_shop / "svc.toml"
    text = manifest.read_text()
    console.keys("1")
    url = address(console)
    manifest.write_text(text.replace('"static"', '"statik"'))
    console.until("statik")
    assert get(url) == "hello"
    manifest.write_text(text)
    console.until(lambda screen: "statik" not in screen)


def test_console_suspends_and_resumes(console: Terminal) -> None:
    console.until("● live")
    console.keys("1")
    console.until("ready")
    process = console.process()
    console.keys("C-z")
    console.restored()
    console.type("fg")
    console.keys("Enter")
    console.until(lambda screen: "● live" in screen and "tables" in screen)
    assert console.process() == process
    console.keys("3")
    console.until("Filter")


def test_request_appears_in_logs(console: Terminal) -> None:
    url = address(console)
    console.keys("3")
    console.until("Filter")
    get(f"{url}/?one")
    console.until("/?one")
    get(f"{url}/?two")
    console.until("/?two")
    console.keys("Enter")
    console.until(lambda screen: re.search(r"request [0-9a-z]{26}", screen) is not None)
    console.keys("Escape")


def test_console_shows_project_and_restores_terminal(console: Terminal) -> None:
    url = address(console)
    assert console.output("#{alternate_on}") == "1"
    assert get(url) == "hello"
    console.keys("q")
    console.restored()
    console.type("echo $?")
    console.keys("Enter")
    console.until("\n0\n")


def is_open(tab: str, text: str, screen: str) -> bool:
    return text in screen and tab in screen.splitlines()[0]


def test_small_terminal_and_resize(shop: Path, open_console: OpenConsole) -> None:
    with open_console(shop, "--port", "0", size=(60, 20)) as console:
        console.until("● live")
        for tab, text in TABS:
            console.keys(tab[0])
            console.until(partial(is_open, tab, text))
        for size in ((20, 5), (200, 60), (1, 1), (80, 24)):
            console.resize(*size)
        console.until(lambda screen: "ready" in screen and "Quit" in screen)


def test_no_color_disables_colors(shop: Path, open_console: OpenConsole) -> None:
    with open_console(shop, "--port", "0", NO_COLOR="1") as console:
        console.until("● live")
        coloured = console.screen(coloured=True)
        assert not re.search(r"\x1b\[[\d;:]*\b[34]8[;:]2[;:](\d+)[;:](?!\1[;:]\1)", coloured), coloured


def test_ascii_locale_shows_ascii(shop: Path, open_console: OpenConsole) -> None:
    with open_console(shop, "--port", "0", LANG="C") as console:
        console.until("live")
        for tab, text in TABS:
            console.keys(tab[0])
            screen_text = console.until(text)
            assert screen_text.isascii(), sorted({each for each in screen_text if not each.isascii()})


def test_keys_after_opening_key_go_into_cell(shop: Path, home: Path, open_console: OpenConsole) -> None:
    svc(shop, home, "tables", "create", "users", "id integer primary key, name text")
    svc(shop, home, "tables", "query", "--write", "insert into users (name) values ('Ann'), ('Bob')")
    with open_console(shop, "--port", "0") as console:
        console.until("● live")
        console.keys("2")
        console.until("Bob")
        console.keys("l", "e", "a", "d", "Enter", "j", "e", "BSpace", "x", "Enter", "C-s")
        console.until("2 rows changed in users")
    assert svc(shop, home, "tables", "query", "--csv", "select name from users").split() == [
        "name",
        "Annad",
        "Box",
    ]


def test_edit_survives_engine_restart(project: Path, home: Path, open_console: OpenConsole) -> None:
    svc(project, home, "tables", "create", "users", "id integer primary key, name text")
    with dev_server(project, home) as server, open_console(project) as console:
        console.until("● live")
        console.keys("2")
        console.until("users")
        console.keys("a", "l", "e")
        console.until("Default")
        console.type("Ada")
        console.keys("Enter")
        console.until("Ada")
        server.process.kill()
        console.until("○ lost")
        server.process.wait()
        with dev_server(project, home):
            console.until("● live")
            console.until("Ada")
            console.keys("C-s", "q")  # Quitting waits for the edits.
            console.restored()
            assert "Ada" in svc(project, home, "tables", "query", "select name from users")


def test_dumb_terminal_is_rejected(shop: Path, home: Path) -> None:
    with terminal(SVC, shop, {"SVC_HOME": str(home), "TERM": "dumb"}) as console:
        console.until("TERM is dumb")
        console.until("svc dev")
        console.restored()
        console.type("echo $?")
        console.keys("Enter")
        console.until("\n2\n")


def test_cell_is_edited_in_external_editor(
    shop: Path, home: Path, tmp_path: Path, open_console: OpenConsole
) -> None:
    (shop / "tables").mkdir()
    (shop / "tables" / "001.sql").write_text(
        "create table notes (id integer primary key, text text); insert into notes values (1, 'one');"
    )
    editor = tmp_path / "my editor"
    editor.write_text(
        '#!/bin/sh\necho editing: $(cat "$1")\nread -r line\nprintf \'%s\\ntwo 日本\\n\' "$line" >"$1"\n'
    )
    editor.chmod(0o755)
    with open_console(shop, "--port", "0", VISUAL="", EDITOR=f"'{editor}'") as console:
        console.until("● live")
        console.keys("2")
        console.until("1  one")
        console.keys("l", "E")
        console.until("editing: one")
        assert console.output("#{alternate_on} #{mouse_any_flag}") == "0 0"
        console.type("typed there")
        console.keys("Enter")
        console.until(lambda screen: "typed there" in screen and "ctrl+s" in screen)
        assert console.output("#{alternate_on}") == "1"
        console.keys("C-s")
        query = ("tables", "query", "select text from notes")
        console.until(lambda _: "two 日本" in svc(shop, home, *query))
        console.keys("q")
        console.restored()


def test_signal_stops_console_and_engine(shop: Path, open_console: OpenConsole) -> None:
    with open_console(shop, "--port", "0") as console:
        url = address(console)
        process = console.process()
        os.kill(process, signal.SIGHUP)
        console.restored()
        wait_for_exit(process)
        with pytest.raises(OSError):
            get(url)
        assert not (shop / ".svc" / "control.json").exists()


def test_closed_terminal_stops_console(shop: Path, open_console: OpenConsole) -> None:
    with open_console(shop, "--port", "0") as console:
        console.until("● live")
        process = console.process()
        assert (shop / ".svc" / "control.json").exists()
        console.tmux("kill-server")
        wait_for_exit(process)
        assert not (shop / ".svc" / "control.json").exists()
