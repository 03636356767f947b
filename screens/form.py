"""Form dialogs: a title, labeled fields, a line for the error, and the keys."""

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from screens.console_screen import StopWorkersFirst
from screens.dialog import key_line
from svc_tui.client import SvcError

T = TypeVar("T")


class Field(Horizontal):
    """A labeled text input."""

    DEFAULT_CSS = """
    Field { height: 1; margin-bottom: 1; }
    Field > Static { width: 16; color: $foreground-muted; }
    Field > Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    Field > Input:focus { border: none; background: $boost; }
    """

    def __init__(
        self, label: str, id: str, value: str = "", *, secret: bool = False, example: str = ""
    ) -> None:
        super().__init__()
        self._label = label
        self.input = Input(value, placeholder=example, password=secret, id=id)

    def compose(self) -> ComposeResult:
        """Compose the label and the input."""
        yield Static(Content(self._label))
        yield self.input


class Form(StopWorkersFirst, ModalScreen[T | None], Generic[T]):
    """A dialog of fields. `enter` moves to the next empty field, and submits if there is none."""

    GROUP: ClassVar[str] = "Form"
    TITLE_TEXT: ClassVar[str] = ""
    DONE: ClassVar[str] = ""
    """The label of submitting, shown beside its key."""
    KEY: ClassVar[str] = "enter"
    """The key that is shown for submitting."""
    DEFAULT_CSS = """
    Form { align: center middle; background: $background 60%; }
    Form > VerticalScroll {
        width: 72; max-width: 96%; height: auto; max-height: 96%; scrollbar-size-vertical: 1;
        padding: 1 2; background: $surface; border-left: outer $primary;
    }
    Form .title { text-style: bold; margin-bottom: 1; }
    Form #wrong { display: none; color: $text-error; margin-bottom: 1; }
    Form .keys { dock: bottom; color: $foreground-muted; background: $surface; link-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "submit", "Submit", id="form.submit"),
        Binding("escape", "cancel", "Back", id="form.back"),
    ]

    def compose(self) -> ComposeResult:
        """Compose the title, the fields, the error and the keys."""
        with VerticalScroll(can_focus=False):
            yield Static(Content(self.TITLE_TEXT), classes="title")
            yield from self.fields()
            yield Static(id="wrong")
            yield Static(classes="keys", id="form-keys")

    def fields(self) -> ComposeResult:
        """Yield the fields and other widgets of the form."""
        raise NotImplementedError

    async def submit(self) -> T:
        """Process the form and return its result. Raises `SvcError`; the form shows it and stays open."""
        raise NotImplementedError

    def value(self, id: str) -> str:
        """Return the text of a field."""
        return self.query_one(f"#{id}", Input).value

    def show_problem(self, text: str) -> None:
        """Show an error; "" hides it."""
        line = self.query_one("#wrong", Static)
        line.update(Content(text))
        line.display = bool(text)
        if text:
            self.call_after_refresh(line.scroll_visible, animate=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Move to the next empty field, or submit."""
        self.action_advance()

    def action_advance(self) -> None:
        """Move to the next empty field, or submit if there is none."""
        if (field := self._next_empty()) is not None:
            field.focus()
        else:
            self.action_submit()

    def _next_empty(self) -> Input | None:
        """Return the first empty field behind the focused one."""
        inputs = [
            field for field in self.query(Input) if field.display and field.parent and field.parent.display
        ]
        if self.KEY != "enter" or self.focused not in inputs:
            return None
        following = inputs[inputs.index(self.focused) + 1 :]
        return next((field for field in following if not field.value.strip()), None)

    def on_input_changed(self) -> None:
        """Update the keys."""
        self._update_keys()

    def on_descendant_focus(self) -> None:
        """Update the keys."""
        self._update_keys()

    def _update_keys(self) -> None:
        """Show what enter does now."""
        hints = [(self.KEY, "submit", self.DONE)]
        if self._next_empty() is not None:
            hints = [("enter", "advance", "next field"), ("ctrl+s", "submit", self.DONE)]
        self.query_one("#form-keys", Static).update(key_line(*hints, ("esc", "cancel", "back")))

    def action_cancel(self) -> None:
        """Close the form without a result."""
        self.dismiss(None)

    def action_submit(self) -> None:
        """Submit the form, unless it is already being processed."""
        self.run_worker(self._submit(), exclusive=True)

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
