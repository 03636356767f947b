"""Screens with one list: the jobs and the schedules of a project, and its stored files, level by level."""

import asyncio
import mimetypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.widgets import Static

from screens.console_screen import ConsoleScreen, Tab, is_working
from screens.dialog import ChoiceDialog, ConfirmDialog, ExportForm, Field, FileForm, FittedLines, PathField
from screens.files import parse_path, progress_bar, read_chunks
from screens.logs.request_view import RequestView
from screens.project_client import ProjectClient
from screens.terminal_app import supports_unicode
from screens.widgets.rows import Cell, ItemRows, Line, ListColumn, Row
from screens.widgets.virtual_list import VirtualRows
from screens.work import rows
from screens.work.picture import MAX_BYTES, Picture, decode, is_image
from screens.work.rows import Document, key_of
from svc_tui.client import SvcError, Unreachable
from svc_tui.terminal.units import duration, plural, size

MAX_LISTED = 1000
"""Maximum number of documents in a list."""
PREVIEW_BYTES = 64 << 10


class ListScreen(ConsoleScreen):
    """A screen with one list, which is loaded again while it is shown, and a line about it."""

    AUTO_FOCUS = "VirtualRows"
    DEFAULT_CSS = """
    ListScreen {
        & VirtualRows { height: 1fr; }
        & #about { height: 1; padding: 0 1; color: $foreground-muted; }
        & #about { text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """
    GROUP: ClassVar[str] = "Jobs and files"
    POLL_SECONDS: ClassVar[float] = 2.0
    COLUMNS: ClassVar[Sequence[ListColumn]]
    source: ItemRows[Document]
    _opened: Document | None = None

    @staticmethod
    def now() -> datetime:
        return datetime.now(UTC)

    def body(self) -> ComposeResult:
        self.source = ItemRows(self._row)
        yield Static(id="about")
        yield VirtualRows(self.source, self.COLUMNS)

    def show_list(self, columns: Sequence[ListColumn]) -> None:
        """Show another list from its first row."""
        self.source = ItemRows(self._row)
        self.rows.set_source(self.source, columns)
        self.reload()

    def _row(self, _: int, document: Document) -> Row:
        return Row(key_of(document), self.cells(document), document)

    def cells(self, document: Document) -> tuple[Cell, ...]:
        """Return the cells of a document, on any thread."""
        raise NotImplementedError

    async def load(self) -> tuple[Sequence[Document], str, str]:
        """Return the documents, the line about them, and what an empty list shows. Raises `SvcError`."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.set_interval(self.POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        if self.is_active and self.client.state == "live" and not is_working(self, "load"):
            self.reload()

    def engine_connected(self) -> None:
        self.reload()

    def on_screen_resume(self) -> None:
        self._poll()

    @work(group="load", exclusive=True)
    async def reload(self) -> None:
        """Load the list again. The cursor stays on its document."""
        try:
            documents, about, empty = await self.load()
        except Unreachable:
            return
        except SvcError as error:
            self.banner = " · ".join(error.text.splitlines())
            return
        self.banner = ""
        key = key_of(self.current) if self.current is not None else None
        self.source.items = documents
        self.rows.empty = empty
        self.rows.reload()
        moved = next((index for index, each in enumerate(documents) if key_of(each) == key), None)
        if moved is not None and moved != self.rows.cursor_row:
            self.rows.cursor_row = moved
        self.query_one("#about", Static).update(Content(about))
        self.refresh_bindings()

    @property
    def current(self) -> Document | None:
        """The document of the dialog that has just been closed, or the one at the cursor."""
        row = self.rows.cursor_row
        return self._opened or next(iter(self.source.items[row : row + 1]), None)

    def chosen(self) -> list[Document]:
        """Return the marked documents that are still there. Without marks, return the current one."""
        if self._opened is None and (marks := self.rows.marks):
            return [each for each in self.source.items if key_of(each) in marks]
        return [self.current] if self.current is not None else []

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in _CHOICES or self.current is not None

    def show(
        self, document: Document, lines: Iterable[Line], *actions: str, picture: Picture | None = None
    ) -> None:
        """Show a document in a dialog, which offers actions."""

        async def act(action: str | None) -> None:
            if action:
                self._opened = document
                await self.run_action(action)
                self._opened = None

        self.app.push_screen(TextDialog([*lines], actions, picture), act)

    def confirm(self, title: str, text: str, action: Callable[[], Any]) -> None:
        """Ask before a deletion, and call the action after a yes."""
        dialog = ConfirmDialog(title, text, "delete")
        self.app.push_screen(dialog, lambda confirmed: action() if confirmed else None)


_CHOICES = {
    "run": ("r", "Run now"), "download": ("x", "Download"), "delete": ("d", "Delete"), "log": ("L", "Log"),
}  # fmt: skip
"""Actions of a list with their keys and labels."""


class TextDialog(ChoiceDialog):
    """Shows lines about one document, and a picture. Returns an action of the list, or ""."""

    GROUP: ClassVar[str] = "Jobs and files"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"choose('{action}')", label, id=f"text.{action}")
            for action, (key, label) in _CHOICES.items()
        ),
        Binding("escape", "dismiss('')", "Back", id="text.back"),
    ]

    def __init__(self, lines: Sequence[Line], actions: Sequence[str], picture: Picture | None = None) -> None:
        """Create the dialog. `actions` are those that it offers."""
        super().__init__(lambda room: lines)
        self._actions, self._picture = actions, picture

    def choices(self) -> list[Binding]:
        """Return the keys of the actions that it offers, and those of every dialog."""
        hidden = {f"choose('{action}')" for action in _CHOICES.keys() - self._actions}
        return [each for each in super().choices() if each.action not in hidden]

    async def on_mount(self) -> None:
        if self._picture is not None:
            await self.query_one(VerticalScroll).mount(self._picture, after=self.query_one(FittedLines))

    def on_resize(self) -> None:
        if self._picture is not None:
            self.call_after_refresh(self._fit, self._picture)

    def _fit(self, picture: Picture) -> None:
        """Give a picture all of the room below the lines."""
        around = 5  # The border at the left, and the padding.
        rows = self.size.height * 9 // 10 - 4 - self.query_one(FittedLines).size.height
        columns = picture.fit(self.size.width * 96 // 100 - around, max(rows, 1))
        self.query_one(VerticalScroll).styles.width = max(90, columns + around)

    def action_choose(self, action: str) -> None:
        if action in self._actions:
            self.dismiss(action)


States = Literal["", "waiting", "running", "dead"]
STATES: tuple[States, ...] = ("", "dead", "waiting", "running")


class JobsScreen(ListScreen):
    """The jobs of a project, or its schedules."""

    TAB: ClassVar[Tab] = "jobs"
    HELP: ClassVar[str] = (
        "Requests that svc sends by itself: jobs, which your code adds, and (S) schedules of svc.toml. "
        "A dead job has failed in all its tries; r runs it again."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Run now", id="jobs.run"),
        Binding("p", "pause", "Pause, resume", id="jobs.pause"),
        Binding("d,delete", "delete", "Delete", id="jobs.delete"),
        Binding("f", "filter", "State", id="jobs.filter"),
        Binding("S", "schedules", "Jobs, schedules", id="jobs.schedules"),
        Binding("L", "log", "Log", id="jobs.log"),
    ]

    COLUMNS: ClassVar[Sequence[ListColumn]] = rows.JOB_COLUMNS
    _state: States = ""
    _schedules = False
    _active = False
    """Whether schedules run at their times."""

    def cells(self, document: Document) -> tuple[Cell, ...]:
        """Return the cells of a job or a schedule."""
        if "id" in document:
            return rows.job_cells(self.now(), document)
        return rows.schedule_cells(self.now(), self._active, document)

    def navigate(self, words: Sequence[str]) -> None:
        """Show the jobs in a state, or the schedules. Raises `SvcError`."""
        word = " ".join(words)
        if word == "schedules":
            self._show(schedules=True)
        elif word in STATES:
            self._state = word
            self._show(schedules=False)
        else:
            raise SvcError(f'unknown state "{word}"', "Available: waiting, running, dead, schedules.")

    async def load(self) -> tuple[Sequence[Document], str, str]:
        """Return the jobs or schedules, the line about them, and the text of an empty list."""
        if self._schedules:
            listed = await self.client.call("GET", "/schedules")
            schedules, self._active = listed["schedules"], listed["active"]
            on_request = schedules and not self._active
            note = " · r runs one now, `svc dev --schedules` all at their times" if on_request else ""
            empty = "No schedules. Add `schedules` to a resource in svc.toml."
            return schedules, plural(len(schedules), "schedule") + note, empty
        params = {"limit": MAX_LISTED, "state": self._state or None}
        listed = await self.client.call("GET", "/jobs", params=params)
        total = listed[self._state] if self._state else sum(listed[state] for state in STATES if state)
        counts = " · ".join(f"{listed[state]:,} {state}" for state in ("waiting", "running", "dead"))
        shown = f" · only {self._state}: f shows others" if self._state else ""
        if total > len(listed["jobs"]):
            shown += f" · the first {len(listed['jobs']):,}"
        empty = "No jobs. Your code adds them with jobs.add(path, body)."
        return listed["jobs"], counts + shown, f"No {self._state} jobs. Press f." if self._state else empty

    def _show(self, *, schedules: bool) -> None:
        self._schedules = schedules
        self.show_list(rows.SCHEDULE_COLUMNS if schedules else rows.JOB_COLUMNS)

    def action_schedules(self) -> None:
        self._show(schedules=not self._schedules)

    def action_filter(self) -> None:
        self._state = STATES[(STATES.index(self._state) + 1) % len(STATES)]
        self._show(schedules=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        hidden = ("filter", "delete") if self._schedules else ("pause",)
        return action not in hidden and super().check_action(action, parameters)

    def action_run(self) -> None:
        if self._schedules and (schedule := self.current) is not None:
            self._run_schedule(schedule)
        elif jobs := self.chosen():
            self._change("retry", jobs)

    @work(group="change")
    async def _run_schedule(self, schedule: Document) -> None:
        self.notify(f"running {key_of(schedule)} …", markup=False, timeout=2)
        with self.shown_errors():
            result = await self.client.call("POST", "/schedules/run", _address(schedule))
            status = f" {result['status']}" if result["status"] is not None else ""
            text = f"{key_of(schedule)} {result['state']}{status} in {duration(int(result['seconds'] * 1e9))}"
            tone: SeverityLevel = "information" if result["state"] == "succeeded" else "error"
            self.notify(text, severity=tone, markup=False)
        self.reload()

    @work(group="change")
    async def action_pause(self) -> None:
        if (schedule := self.current) is not None:
            body = {**_address(schedule), "paused": not schedule["paused"]}
            await self.client.call("PUT", "/schedules/paused", body)
            self.reload()

    def action_delete(self) -> None:
        if jobs := self.chosen():
            title = f"Delete {plural(len(jobs), 'job')}?"
            self.confirm(title, "A try that runs continues.", lambda: self._change("remove", jobs))

    @work(group="change")
    async def _change(self, action: Literal["retry", "remove"], jobs: Sequence[Document]) -> None:
        with self.shown_errors():
            changed = await self.client.call("POST", f"/jobs/{action}", {"ids": [job["id"] for job in jobs]})
            count = changed["changed"]
            done = "deleted" if action == "remove" else "runs again" if count == 1 else "run again"
            ended = f"; {len(jobs) - count:,} had ended, or run now" if count < len(jobs) else ""
            self.notify(f"{plural(count, 'job')} {done}{ended}", timeout=3)
            self.rows.unmark()
        self.reload()

    def action_log(self) -> None:
        if (document := self.current) is not None:
            last = document["last"] if self._schedules else document
            if last and last["request"]:
                self.app.push_screen(RequestView(self.client, last["request"]))
            else:
                self.notify("it has not run yet" if self._schedules else "no try has failed yet", timeout=2)

    @work(group="open", exclusive=True)
    async def on_virtual_rows_opened(self) -> None:
        if self._schedules:
            self.action_log()
        elif (row := self.current) is not None:
            job = await self.client.call("GET", f"/jobs/{row['id']}")
            actions = ("run", "delete", "log") if job["request"] else ("run", "delete")
            self.show(job, rows.job_lines(job, self.now()), *actions)


def _address(schedule: Document) -> dict[str, str]:
    return {"resource": schedule["resource"], "path": schedule["path"]}


class FilesScreen(ListScreen):
    """The files of a project whose keys have a prefix."""

    TAB: ClassVar[Tab] = "files"
    HELP: ClassVar[str] = (
        "Objects that your code stores with files.put. Keys have levels, as paths do: enter opens one, "
        "backspace leaves it. :files PREFIX lists any prefix."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "download", "Download", id="files.download"),
        Binding("i", "upload", "Upload", id="files.upload"),
        Binding("d,delete", "delete", "Delete", id="files.delete"),
        Binding("y", "copy", "Copy key", show=False, id="files.copy"),
        Binding("backspace", "up", "Up a level", id="files.up"),
    ]

    POLL_SECONDS: ClassVar[float] = 10.0
    """The API counts the files of a level each time."""
    COLUMNS: ClassVar[Sequence[ListColumn]] = rows.FILE_COLUMNS
    _prefix = ""

    def cells(self, document: Document) -> tuple[Cell, ...]:
        return rows.file_cells(self.now(), self._prefix[: self._prefix.rfind("/") + 1], document)

    def navigate(self, words: Sequence[str]) -> None:
        """Show the files with a prefix."""
        self._prefix = " ".join(words)
        self.show_list(self.COLUMNS)

    async def load(self) -> tuple[Sequence[Document], str, str]:
        """Return the levels and files, the line about them, and the text of an empty list."""
        prefix = self._prefix
        params = {"prefix": prefix, "delimiter": "/", "limit": MAX_LISTED}
        page, usage = await asyncio.gather(
            self.client.call("GET", "/files", params=params),
            self.client.call("GET", "/files/usage", params={"prefix": prefix}),
        )
        entries = [*({"prefix": each} for each in page["prefixes"]), *page["files"]]
        limit = f" of {size(usage['limit'])}" if usage["limit"] is not None and not prefix else ""
        about = f"{prefix or 'all'} · {plural(usage['files'], 'file')}, {size(usage['bytes'])}{limit}"
        if page["cursor"]:
            about += f" · the first {MAX_LISTED:,}: narrow with :files PREFIX"
        empty = "No files here. Press backspace." if prefix else "No files. Press i to upload one."
        return entries, about, empty

    @property
    def file(self) -> Document | None:
        """The file at the cursor."""
        current = self.current
        return None if current is None or "prefix" in current else current

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self._prefix) if action == "up" else super().check_action(action, parameters)

    def action_up(self) -> None:
        left = self._prefix
        head, slash, _ = left.rstrip("/").rpartition("/")
        self.navigate([head + slash] if slash else [])
        self.source.items = [{"prefix": left}]  # for `reload`, which puts the cursor there

    def action_copy(self) -> None:
        if (file := self.file) is not None:
            self.app.copy_to_clipboard(file["key"])
            self.notify("copied the key", timeout=2)

    def action_download(self) -> None:
        if (file := self.file) is not None:
            name, about = file["key"].rpartition("/")[2], f"{file['key']}, {size(file['size'])}"
            content = partial(self.client.download, "/files/content", params={"key": file["key"]})
            self.app.push_screen(ExportForm(name, name, about, lambda *_: content()))

    def action_upload(self) -> None:
        def stored(key: str | None) -> None:
            if key:
                self.notify(f"stored {key}", markup=False, timeout=3)
                self.reload()

        self.app.push_screen(UploadForm(self.client, self._prefix), stored)

    def action_delete(self) -> None:
        if files := [each for each in self.chosen() if "key" in each]:
            what = files[0]["key"] if len(files) == 1 else plural(len(files), "file")
            self.confirm(f"Delete {what}?", "It cannot be undone.", lambda: self._delete(files))
        elif self.current is not None:
            self.notify("open the level, and mark its files with space", timeout=3)

    @work(group="change")
    async def _delete(self, files: Sequence[Document]) -> None:
        with self.shown_errors():
            for file in files:
                await self.client.call("DELETE", "/files/content", params={"key": file["key"]})
            self.notify(f"deleted {plural(len(files), 'file')}", timeout=2)
            self.rows.unmark()
        self.reload()

    @work(group="open", exclusive=True)
    async def on_virtual_rows_opened(self) -> None:
        if (file := self.current) is None:
            return
        if "prefix" in file:
            self.navigate([file["prefix"]])
            return
        data = await asyncio.to_thread(_beginning, self.client, file)
        picture, note = None, ""
        try:
            if is_image(data) and supports_unicode():
                image, pixels = await asyncio.to_thread(decode, data, file["size"])
                picture, note = Picture(image), f"{pixels[0]:,} × {pixels[1]:,}"
        except SvcError as error:
            note = error.message
        lines = rows.file_lines(file, data, note, shown=picture is not None)
        self.show(file, lines, "download", "delete", picture=picture)


def _beginning(client: ProjectClient, file: Document) -> bytes:
    """Return the first bytes of a file, or an image that is not too large. Raises `SvcError`."""
    data, limit = bytearray(), PREVIEW_BYTES
    with closing(client.download("/files/content", params={"key": file["key"]})) as chunks:
        for chunk in chunks:
            data += chunk
            if is_image(data) and file["size"] <= MAX_BYTES:
                limit = MAX_BYTES
            if len(data) >= limit:
                break
    return bytes(data[:limit])


class UploadForm(FileForm[str]):
    """Stores a file of this machine. Returns its key."""

    TITLE_TEXT: ClassVar[str] = "Upload a file"
    DONE: ClassVar[str] = "upload it"

    def __init__(self, client: ProjectClient, prefix: str) -> None:
        super().__init__()
        self._client, self._prefix = client, prefix

    def fields(self) -> ComposeResult:
        """Yield the fields and the progress."""
        yield PathField("file", "file", example="a file of this machine")
        yield Field("key", "key", self._prefix, example="default: the name of the file")
        yield Static(id="progress")

    async def work(self) -> str:
        """Store the file. Raises `SvcError`; nothing is stored then."""
        path, key = parse_path(self.value("file")), self.value("key").strip()
        key = f"{key}{path.name}" if not key or key.endswith("/") else key
        found = await self._client.call("GET", "/files", params={"prefix": key, "limit": 1})
        if any(file["key"] == key for file in found["files"]):
            dialog = ConfirmDialog(f"{key} exists already", "It is replaced as a whole.", "replace it")
            if not await self.app.push_screen_wait(dialog):
                raise SvcError("nothing was stored")
        await asyncio.to_thread(self._send, path, key)
        return key

    def _send(self, path: Path, key: str) -> None:
        def show(done: int, total: int) -> None:
            self.progress = f"{progress_bar(done, total)}  {size(done)} sent"

        chunks = read_chunks(path, show, self.stopped, "nothing was stored")
        params = {"key": key, "type": mimetypes.guess_type(key)[0]}
        self._client.call_sync("PUT", "/files/content", params=params, content=chunks)
