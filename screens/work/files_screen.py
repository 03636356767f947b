"""Files screen: the stored files of a project, level by level, with preview, download and upload."""

import asyncio
import mimetypes
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from screens.console_screen import Tab
from screens.dialog import ConfirmDialog, ExportForm, Field, FileForm, PathField, require_filled
from screens.files import parse_path, progress_bar, read_chunks
from screens.project_client import ProjectClient
from screens.terminal_app import supports_unicode
from screens.widgets.rows import Cell, ListColumn
from screens.work.picture import MAX_BYTES, Picture, decode, is_image
from screens.work.rows import FILE_COLUMNS, Document, file_cells, file_lines
from screens.work.screen import MAX_LISTED, ListScreen
from svc_tui.client import SvcError
from svc_tui.terminal.units import plural, size

PREVIEW_BYTES = 64 << 10


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
    COLUMNS: ClassVar[Sequence[ListColumn]] = FILE_COLUMNS
    _prefix = ""

    def cells(self, document: Document) -> tuple[Cell, ...]:
        return file_cells(self.now(), self._prefix[: self._prefix.rfind("/") + 1], document)

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
        with self.shown_errors():
            data = await asyncio.to_thread(_beginning, self.client, file)
            picture, note = None, ""
            try:
                if is_image(data) and supports_unicode():
                    image, pixels = await asyncio.to_thread(decode, data, file["size"])
                    picture, note = Picture(image), f"{pixels[0]:,} × {pixels[1]:,}"
            except SvcError as error:
                note = error.message
            lines = file_lines(file, data, note, shown=picture is not None)
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
        require_filled([("file", self.value("file"))])
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
