"""A Textual application with a text only, which each key changes: the least that the Console could take."""

from textual.app import App, ComposeResult
from textual.events import Key
from textual.widgets import Static


class Roof(App[None]):
    """Shows the number of keys."""

    keys = 0

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static("ready", id="text")

    def on_key(self, event: Key) -> None:
        """Count a key."""
        self.keys += 1
        self.query_one("#text", Static).update(f"{self.keys} keys")


if __name__ == "__main__":
    Roof().run()
