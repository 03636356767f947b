"""Jobs and Files screens over a project in development, with a component that answers 200."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot

from doors.jobs.door import JOBS
from doors.tables.replication.entry import Origin
from doors.tables.sqlite.owner import open_for_writing
from engine.files.data_dir import DATA_DIR
from screens.console_screen import ConsoleScreen
from screens.dialog import ConfirmDialog, ExportForm
from screens.logs.request_view import RequestView
from screens.work import screen as work_screen
from screens.work.picture import Picture
from screens.work.screen import FilesScreen, JobsScreen, ListScreen, TextDialog, UploadForm
from tests.engine.wasm.text_guest import component
from tests.screens.dev_project import Console, Driven, Shop, developed
from tests.screens.work.test_picture import encoded, halves, png_head
from tests.support.screens import SECONDS, idle

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
MANIFEST = """\
[project]
name = "shop"

[resource.worker]
lane = "rust"
build = "cp made.bin worker.wasm"
output = "worker.wasm"
schedules = { "/hourly" = "0 3 * * *", "/often" = "every 5m" }
timezone = "Europe/Zurich"
"""
ADDED = datetime(2026, 11, 29, 5, tzinfo=UTC)
INSERT = """
    INSERT INTO _svc_jobs (id, resource, path, body, key, state, added, due, tries, max_tries, error)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 8, ?)"""
DEAD = {
    "resource": "missing",
    "path": "/mail",
    "body": '{"order": [1, "ü"]}',
    "key": "order 1",
    "state": "dead",
    "tries": 8,
    "error": "no resource missing",
}
SIZES = [(60, 20), (80, 24), (160, 50)]


@pytest.fixture(autouse=True)
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave it to the tests when a list is loaded."""
    for screen in (JobsScreen, FilesScreen):
        monkeypatch.setattr(screen, "POLL_SECONDS", 3600.0)


@pytest.fixture
def shop(tmp_path: Path, cache: Path) -> Iterator[Shop]:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "svc.toml").write_text(MANIFEST)
    (root / "made.bin").write_bytes(component())
    with developed(root, cache) as shop:
        yield shop


@asynccontextmanager
async def opened(
    shop: Shop, screen: type[ConsoleScreen], size: tuple[int, int] = (80, 24)
) -> AsyncIterator["Work"]:
    link = shop.link()
    tab = screen(link)
    app = Console(tab)
    app.animation_level = "none"
    try:
        async with app.run_test(size=size) as pilot:
            await asyncio.to_thread(link.reconnect)
            tab.link_changed()
            yield Work(pilot, tab)
    finally:
        link.shut_down()


class Work(Driven):
    """A screen with one list, driven by a test."""

    def __init__(self, pilot: Pilot[Any], screen: ConsoleScreen) -> None:
        super().__init__(pilot)
        self.screen = screen

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return await asyncio.to_thread(self.screen.client.call_sync, method, path, body, **options)

    async def store(self, key: str, content: bytes, kind: str) -> None:
        await self.call("PUT", "/files/content", params={"key": key, "type": kind}, content=[content])

    async def opens(self, kind: type[Any]) -> None:
        await self.until(lambda: isinstance(self.app.screen, kind))

    async def counts(self, *words: str) -> None:
        """Load the list until its line has some words."""
        assert isinstance(self.screen, ListScreen)
        async with asyncio.timeout(SECONDS):
            while not all(word in self.text for word in words):
                self.screen.reload()
                await idle(self.pilot)


def add(shop: Shop, *jobs: dict[str, Any]) -> None:
    """Write jobs to the database, a day before they are due."""
    due = int(ADDED.timestamp() * 1000) + 4000 * 86_400_000
    with open_for_writing(shop.root / DATA_DIR, origin=Origin("request", requests=["r"])) as connection:
        connection.execute("begin immediate")
        for statement in JOBS.create:
            connection.execute(statement)
        for number, job in enumerate(jobs):
            values = {"resource": "worker", "path": "/later", "body": "{}", "key": None, "state": "waiting"}
            values |= {"added": due, "due": due, "tries": 0, "error": ""} | job
            connection.execute(INSERT, (f"{number:016x}", *values.values()))
        connection.execute("commit")


async def test_jobs_are_listed_filtered_shown_retried_and_deleted(shop: Shop) -> None:
    async with opened(shop, JobsScreen, (120, 24)) as work:
        await work.shows("0 waiting · 0 running · 0 dead", "No jobs. Your code adds them with jobs.add")
        add(shop, DEAD, {}, {})
        await work.counts("2 waiting · 0 running · 1 dead", "missing:/mail", "8/8", "no resource", " d  ")
        await work.press("f")
        await work.shows("only dead")
        await work.hides("worker:/later")
        await work.press("enter")
        await work.opens(TextDialog)
        await work.shows("dead, try 8 of 8", "order 1", '"order": [', '"ü"', "r run now", "d delete")
        await work.press("escape", "f")
        await work.counts("only waiting", "worker:/later")
        await work.press("space", "space", "d")
        await work.shows("Delete 2 jobs?")
        await work.press("y")
        await work.until(lambda: "2 jobs deleted" in work.app.messages)
        await work.counts("0 waiting", "No waiting jobs. Press f.")
        work.screen.navigate(["dead"])
        await work.shows("missing:/mail")
        await work.press("enter")
        await work.opens(TextDialog)
        await work.press("r")
        await work.until(lambda: "1 job runs again" in work.app.messages)
        await work.counts("0 dead")


async def test_change_of_a_job_that_has_ended_says_so(shop: Shop) -> None:
    async with opened(shop, JobsScreen) as work:
        add(shop, {})
        await work.counts("1 waiting")
        (job,) = (await work.call("GET", "/jobs"))["jobs"]
        await work.call("POST", "/jobs/remove", {"ids": [job["id"]]})
        await work.press("r")
        await work.until(lambda: any("0 jobs run again; 1 had ended" in each for each in work.app.messages))


async def test_schedules_are_listed_run_paused_and_their_log_opened(shop: Shop) -> None:
    async with opened(shop, JobsScreen, (120, 24)) as work:
        await work.press("S")
        await work.shows(
            "2 schedules", "svc dev --schedules", "worker:/hourly", "Europe/Zurich", "not run yet"
        )
        await work.press("enter")
        await work.until(lambda: "it has not run yet" in work.app.messages)
        await work.press("r")
        await work.until(lambda: any("worker:/hourly succeeded 200" in each for each in work.app.messages))
        await work.counts("ok 200, ")
        await work.press("p")
        await work.counts("paused")
        await work.press("p")
        await work.hides("paused")
        await work.press("L")
        await work.opens(RequestView)


@pytest.mark.parametrize("words", [["schedules"], ["dead"]])
async def test_words_of_the_command_choose_the_list(shop: Shop, words: list[str]) -> None:
    async with opened(shop, JobsScreen) as work:
        assert isinstance(work.screen, JobsScreen)
        work.screen.navigate(words)
        await work.shows("2 schedules" if words == ["schedules"] else "No dead jobs. Press f.")


async def test_files_are_listed_by_level_shown_downloaded_and_deleted(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, FilesScreen) as work:
        await work.shows("all · 0 files, 0 B", "No files. Press i to upload one.", "i Upload")
        await work.hides("x Download")
        await work.store("notes/a ü.txt", "first line\nzweite ü\x1b[2J".encode(), "text/plain")
        await work.store("notes/deep/b.png", b"\x89PNG\0", "image/png")
        await work.store("c.bin", b"\xff\0\xff", "")
        await work.counts("3 files", "notes/", "c.bin")
        await work.press("enter")
        await work.shows("notes/ · 2 files", "deep/", "a ü.txt", "text/plain")
        await work.press("j", "enter")
        await work.opens(TextDialog)
        await work.shows("notes/a ü.txt", "first line", "zweite ü", "x download", "esc back")
        await work.press("x")
        await work.opens(ExportForm)
        field: Any = work.app.screen.query_one("#file")
        field.value = str(tmp_path / "saved.txt")
        await work.press("ctrl+s")
        await work.until(lambda: (tmp_path / "saved.txt").is_file())
        assert (tmp_path / "saved.txt").read_bytes() == "first line\nzweite ü\x1b[2J".encode()
        await work.until(lambda: work.app.screen is work.screen)
        await work.press("d")
        await work.shows("Delete notes/a ü.txt?", "It cannot be undone.")
        await work.press("y")
        await work.counts("notes/ · 1 file")
        await work.press("enter", "enter")
        await work.shows("binary: a terminal cannot show it; x downloads it")
        await work.press("escape", "backspace")
        await work.counts("notes/ · 1 file")
        await work.press("enter")
        await work.shows("b.png")
        await work.press("backspace", "backspace")
        await work.counts("all · 2 files", "c.bin")
        await work.press("j", "enter")
        await work.shows("binary: a terminal cannot show it")


@pytest.mark.parametrize("size", SIZES[::2])
async def test_picture_fits_terminal(shop: Shop, size: tuple[int, int]) -> None:
    async with opened(shop, FilesScreen, size) as work:
        await work.store("a.png", encoded(halves(3000, 2000), "PNG"), "image/png")
        await work.store("bomb.png", png_head(30_000, 30_000), "image/png")
        await work.store("cut.png", encoded(halves(300, 300), "PNG")[:200], "image/png")
        await work.store("text.png", b"a text", "image/png")
        await work.counts("4 files")
        await work.press("enter")
        await work.opens(TextDialog)
        await work.shows("3,000 × 2,000", "▀▀▀▀", "x download", "esc back")
        around = work.app.screen.query_one(VerticalScroll)
        await work.until(lambda: not around.show_vertical_scrollbar and around.max_scroll_y == 0)
        picture = work.app.screen.query_one(Picture)
        assert around.region.contains_region(picture.region)
        assert picture.size.height >= size[1] * 4 // 10
        for text in ("an image of 30,000 × 30,000 pixels", "a damaged or incomplete image", "a text"):
            await work.press("escape", "j", "enter")
            await work.opens(TextDialog)
            await work.shows(text)


async def test_picture_in_a_terminal_without_unicode_is_not_drawn(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_screen, "supports_unicode", lambda: False)
    async with opened(shop, FilesScreen) as work:
        await work.store("a.png", encoded(halves(), "PNG"), "image/png")
        await work.counts("1 file")
        await work.press("enter")
        await work.shows("binary: a terminal cannot show it; x downloads it")


async def test_file_is_uploaded_with_its_type_and_replaced_after_a_question(
    shop: Shop, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text("one")
    async with opened(shop, FilesScreen) as work:
        for content in ("one", "longer"):
            (tmp_path / "page.html").write_text(content)
            await work.press("i")
            await work.opens(UploadForm)
            for id_, value in (("file", str(tmp_path / "page.html")), ("key", "site/")):
                field: Any = work.app.screen.query_one(f"#{id_}")
                field.value = value
            await work.pilot.press("ctrl+s")
            if content == "longer":
                await work.opens(ConfirmDialog)
                await work.shows("site/page.html exists already")
                await work.press("y")
            await work.until(lambda: work.app.screen is work.screen)
            (file,) = (await work.call("GET", "/files", params={"prefix": "site/"}))["files"]
            assert (file["size"], file["fields"]) == (len(content), {"content-type": "text/html"})
        await work.press("i")
        await work.opens(UploadForm)
        field = work.app.screen.query_one("#file")
        field.value = str(tmp_path / "none")
        await work.press("ctrl+s")
        await work.shows("cannot read")


@pytest.mark.parametrize("size", SIZES)
async def test_lists_fit_terminals(
    shop: Shop, size: tuple[int, int], snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shop, JobsScreen, size) as work:
        path = "/mail/of/a/very/long/path/indeed"
        add(shop, DEAD | {"path": path}, {}, {"tries": 2, "error": "status 500", "key": "漢字"})
        monkeypatch.setattr(ListScreen, "now", staticmethod(lambda: ADDED))
        await work.counts("2 waiting · 0 running · 1 dead", "in 4000 d")
        snapshot(work.app)
