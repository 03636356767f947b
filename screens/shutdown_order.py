"""The end of a screen: its work ends first, its parts after it."""

from textual.messages import Prune
from textual.widget import Widget


class EndsFirst(Widget):
    """A screen that ends its workers when it is asked to go.

    A screen's parts go before the screen itself does, and a worker that lived until then would look for them.
    """

    async def on_prune(self, event: Prune) -> None:
        """End what is going on here; Textual runs the base's own handler after this one."""
        self.workers.cancel_node(self)
