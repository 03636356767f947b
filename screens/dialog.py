"""Dialogs: questions answered by a key, forms of fields, and forms that read or write a file."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from screens.console_screen import StopWorkersFirst, is_working
from screens.files import Chunks, complete_path, parse_path, write_file
from screens.terminal_app import BrowserDriver, downloads_of
from screens.widgets.component_styles import to_content
from screens.widgets.rows import Line
from svc_tui.client import SvcError
from svc_tui.terminal.units import size


def key_hints(*hints: tuple[str, str, str]) -> Static:
    """Return a line of clickable keys, each a key, its action and a label."""
    return Static(key_line(*hints), classes="keys")


def key_line(*hints: tuple[str, str, str]) -> Content:
    """Return the text of clickable keys, each a key, its action and a label."""
    markup = "[@click=screen.{}][b $primary]$key[/] $label[/]"
    parts = [Content.from_markup(markup.format(action), key=key, label=label) for key, action, label in hints]
    return Content("    ").join(parts)


FitLines = Callable[[int], Iterable[Line]]
"""Returns the lines for a number of cells."""


class FittedLines(Static):
    """Lines that depend on the width."""

    def __init__(self, lines: FitLines) -> None:
        super().__init__()
        self._lines = lines

    def on_resize(self) -> None:
        self.update(to_content(self._lines(self.size.width)))


T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box over the screen."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical, Dialog > VerticalScroll {
        max-width: 96%; height: auto; max-height: 90%; scrollbar-size-vertical: 1;
        padding: 1 2; background: $surface; border-left: outer $primary;
    }
    """


class ChoiceDialog(Dialog[str]):
    """Shows some lines and asks for one of several choices. Returns "" if it is canceled."""

    DEFAULT_CSS = """
    ChoiceDialog > VerticalScroll { width: 90; }
    ChoiceDialog .keys { dock: bottom; padding-top: 1; background: $surface; link-style: none; }
    """

    def __init__(self, lines: FitLines) -> None:
        """Create the dialog. `lines` are above the choices."""
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        display = self.app.get_key_display
        with VerticalScroll():
            yield FittedLines(self._lines)
            hints = ((display(each), each.action, each.description.lower()) for each in self.choices())
            yield key_hints(*hints)

    def choices(self) -> list[Binding]:
        """Return the keys of the choices."""
        return [each for each, *_ in self._bindings.key_to_bindings.values() if each.id]


class ConfirmDialog(Dialog[bool]):
    """Asks one yes/no question: `y` confirms; `n`, `esc` and a click outside cancel."""

    GROUP: ClassVar[str] = "Question"
    DEFAULT_CSS = """
    ConfirmDialog > VerticalScroll {
        width: auto; min-width: 40; max-width: 90%; max-height: 80%; border-left: outer $warning;
    }
    ConfirmDialog .title { text-style: bold; width: auto; max-width: 100%; }
    ConfirmDialog .text { color: $foreground-muted; width: auto; max-width: 100%; }
    ConfirmDialog .change { width: auto; max-width: 100%; margin-top: 1; }
    ConfirmDialog .keys { dock: bottom; width: 100%; padding-top: 1; background: $surface; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="question.yes"),
        Binding("n,escape", "dismiss(False)", "No", id="question.no"),
    ]

    def __init__(self, title: str, text: str, yes: str, lines: Sequence[Line] = ()) -> None:
        """Create the dialog. `yes` labels the confirmation: `delete 3 rows`. `lines` show a change."""
        super().__init__()
        self._title, self._text, self._confirm_label, self._lines = title, text, yes, lines

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Content(self._title), classes="title")
            yield Static(Content(self._text), classes="text")
            if self._lines:
                yield Static(to_content(self._lines), classes="change")
            yield key_hints(("y", "dismiss(True)", self._confirm_label), ("n", "dismiss(False)", "cancel"))

    def on_click(self, event: object) -> None:
        if getattr(event, "widget", None) is self:
            self.dismiss(False)


class Field(Horizontal):
    """A labeled text input."""

    DEFAULT_CSS = """
    Field { height: 1; margin-bottom: 1; }
    Field > Static { width: 16; color: $foreground-muted; }
    Field > Input { width: 1fr; height: 1; padding: 0 1; background: $panel; }
    Field > Input:focus { background: $boost; }
    """

    INPUT: ClassVar[type[Input]] = Input

    def __init__(
        self, label: str, id: str, value: str = "", *, secret: bool = False, example: str = ""
    ) -> None:
        super().__init__()
        self._label = label
        self.input = self.INPUT(value, placeholder=example, password=secret, id=id)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._label))
        yield self.input


class Form(Dialog[T | None], StopWorkersFirst, Generic[T]):
    """A dialog of fields. `enter` moves to the next empty field, and submits if there is none."""

    GROUP: ClassVar[str] = "Form"
    TITLE_TEXT: ClassVar[str] = ""
    DONE: ClassVar[str] = ""
    """The label of submitting, shown beside its key."""
    KEY: ClassVar[str] = "enter"
    """The key that is shown for submitting."""
    DEFAULT_CSS = """
    Form > VerticalScroll { width: 72; max-height: 96%; }
    Form .title { text-style: bold; margin-bottom: 1; }
    Form #wrong { display: none; color: $text-error; margin-bottom: 1; }
    Form .keys { dock: bottom; color: $foreground-muted; background: $surface; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "submit", "Submit", id="form.submit"),
        Binding("escape", "cancel", "Back", id="form.back"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(Content(self.TITLE_TEXT), classes="title")
            yield from self.fields()
            yield Static(id="wrong")
            yield Static(classes="keys", id="form-keys")

    def fields(self) -> ComposeResult:
        raise NotImplementedError

    async def submit(self) -> T:
        """Process the form and return its result. Raises `SvcError`; the form shows it and stays open."""
        raise NotImplementedError

    def value(self, id: str) -> str:
        return self.query_one(f"#{id}", Input).value

    def show_problem(self, text: str) -> None:
        """Show an error; "" hides it."""
        line = self.query_one("#wrong", Static)
        line.update(Content(text))
        line.display = bool(text)
        if text:
            self.call_after_refresh(line.scroll_visible, animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_advance()

    def action_advance(self) -> None:
        """Move to the next empty field, or submit if there is none."""
        if (field := self._next_empty()) is not None:
            field.focus()
        else:
            self.action_submit()

    def _next_empty(self) -> Input | None:
        """Return the first empty field behind the focused one."""
        inputs = [each for each in self.query(Input) if each.display and each.parent and each.parent.display]
        if self.KEY != "enter" or self.focused not in inputs:
            return None
        following = inputs[inputs.index(self.focused) + 1 :]
        return next((field for field in following if not field.value.strip()), None)

    def on_input_changed(self) -> None:
        self._update_keys()

    def on_descendant_focus(self) -> None:
        self._update_keys()

    def _update_keys(self) -> None:
        """Show what enter does now."""
        hints = [(self.KEY, "submit", self.DONE)]
        if self._next_empty() is not None:
            hints = [("enter", "advance", "next field"), ("ctrl+s", "submit", self.DONE)]
        self.query_one("#form-keys", Static).update(key_line(*hints, ("esc", "cancel", "back")))

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_submit(self) -> None:
        """Submit the form, unless it is already being processed."""
        if not is_working(self, "submit"):
            self._submit()

    @work(group="submit")
    async def _submit(self) -> None:
        self.show_problem("")
        try:
            result = await self.submit()
        except SvcError as error:
            self.show_problem(error.text)
        else:
            self.dismiss(result)


def require_filled(pairs: Sequence[tuple[str, str]]) -> None:
    """Raise `SvcError` for the first pair of label and value whose value is empty."""
    for name, value in pairs:
        if not value.strip():
            raise SvcError(f"{name} is missing", code="usage")


MAX_DOWNLOAD_BYTES = 256 << 20
"""Maximum size of an export that a browser downloads from a Console at a service."""
_PROGRESS_SECONDS = 0.1


class Completion(Suggester):
    """Suggests what a function completes a value to."""

    def __init__(self, complete: Callable[[str], str]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed value, or None if there is nothing to complete."""
        completed = self._complete(value) if value else value
        return completed if completed.rstrip() != value else None


class PathInput(Input):
    """A path input. Tab completes the path, or moves on if nothing can be completed."""

    GROUP: ClassVar[str] = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", show=False, id="tables.path-complete")
    ]

    def __init__(self, value: str, **options: Any) -> None:
        super().__init__(value, select_on_focus=False, suggester=Completion(complete_path), **options)

    def action_complete(self) -> None:
        completed = complete_path(self.value) if self.value else self.value
        if completed == self.value:
            self.screen.focus_next()
            return
        self.value = completed
        self.cursor_position = len(completed)


class PathField(Field):
    """A labeled path input."""

    INPUT = PathInput


class FileForm(Form[T]):
    """A form with long-running work: shows its progress, and `esc` stops it."""

    GROUP: ClassVar[str] = "Tables"
    DEFAULT_CSS = """
    FileForm .about { margin-bottom: 1; color: $foreground-muted; }
    FileForm #progress { display: none; color: $text-primary; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.progress = ""
        """The progress text, written by the worker thread."""
        self.stopped = threading.Event()
        self._busy = False

    def on_mount(self) -> None:
        self.set_interval(_PROGRESS_SECONDS, self._update_progress)

    def _update_progress(self) -> None:
        line = self.query_one("#progress", Static)
        line.update(Content.from_markup("$how\n[dim]esc stops[/]", how=self.progress))
        if self._busy and not line.display:
            self.call_after_refresh(line.scroll_visible, animate=False)
        line.display = self._busy

    def action_submit(self) -> None:
        """Submit, unless the work is already running."""
        if not self._busy:
            super().action_submit()

    async def submit(self) -> T:
        """Run the work and show its progress."""
        require_filled([("file", self.value("file"))])
        self._busy = True
        self.stopped.clear()
        self.progress = ""
        try:
            return await self.work()
        finally:
            self._busy = False
            self._update_progress()

    async def work(self) -> T:
        """Do the work and return the result of the form. Raises `SvcError`."""
        raise NotImplementedError

    def target(self) -> Path:
        """Return the path that the user entered; for a download, the same name in the folder of downloads."""
        path, folder = parse_path(self.value("file")), downloads_of(self.app)
        if folder is None:
            return path
        for earlier in folder.iterdir():
            earlier.unlink()
        return folder / path.name

    def action_cancel(self) -> None:
        """Stop the work; close the form if no work is running."""
        if self._busy:
            self.stopped.set()
        else:
            super().action_cancel()


class ExportForm(FileForm[Path]):
    """Writes a file, and asks before replacing one. Returns its path."""

    DONE: ClassVar[str] = "export"

    def __init__(
        self,
        what: str,
        name: str,
        about: str,
        content: "Callable[[ExportForm, str], Chunks]",
        choices: Sequence[Field] = (),
        *,
        example: str = "",
    ) -> None:
        """Create the form. It proposes the file `name`; `about` describes what it exports, and the formats.

        `content` gets the form and a name, and returns the content of such a file. Both raise `SvcError`.
        `choices` are fields beside the file, whose `example` is shown when it is empty.
        """
        super().__init__()
        self.TITLE_TEXT = f"Export {what}"  # type: ignore[misc]
        self._file_name, self._about, self._content, self._choices = name, about, content, choices
        self._example = example

    def fields(self) -> ComposeResult:
        """Yield the file, the choices, the description and the progress."""
        yield PathField("file", "file", self._file_name, example=self._example or self._file_name)
        yield from self._choices
        yield Static(Content(self._about), classes="about")
        yield Static(id="progress")

    async def work(self) -> Path:
        """Write the file, after a confirmation if it exists. Raises `SvcError`, also if the user declines."""
        path, chunks = self.target(), self._content(self, self.value("file"))
        is_local = downloads_of(self.app) is None
        if is_local and path.is_dir():
            raise SvcError(f"{path} is a folder", "Enter the name of a file in it.")
        if is_local and path.exists():
            text = "It is replaced after all data has been written."
            dialog = ConfirmDialog(f"{path} already exists", text, "replace it")
            if not await self.app.push_screen_wait(dialog):
                raise SvcError("nothing was written")
        what = self.outcome(await asyncio.to_thread(self._write, path, chunks))
        if is_local:
            self.app.notify(f"exported {what} to {path}", markup=False)
        elif isinstance(self.app._driver, BrowserDriver):
            self.app._driver.write_meta({"type": "download", "name": path.name})
            self.app.notify(f"exported {what}; your browser downloads {path.name}", markup=False)
        return path

    def outcome(self, written: int) -> str:
        """Return what was exported; `written` is the size of the file."""
        return size(written)

    def _write(self, path: Path, chunks: Chunks) -> int:
        limit = None if downloads_of(self.app) is None else MAX_DOWNLOAD_BYTES

        def limited(done: int, total: int) -> None:
            if limit is not None and done > limit:
                hint = "Use `svc tables export`, `svc logs` or `svc files get` on your machine."
                raise SvcError(f"a download has at most {size(limit)}", hint)
            self.progress = f"{size(done)} written"

        with closing(chunks):
            return write_file(path, chunks, limited, self.stopped)
