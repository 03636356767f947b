"""Palette: actions, commands and their values, one line each, in the order of their use."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from textual.binding import ActiveBinding, Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from screens.console_screen import ConsoleCommand

_MOVEMENTS = frozenset(
    {
        "bottom",
        "down",
        "end",
        "jump",
        "move",
        "move_sideways",
        "next_edge",
        "next_match",
        "next_of_request",
        "page",
        "scroll",
        "scroll_details",
        "top",
        "up",
    }
)
"""Actions that only move the cursor or the view."""


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """An entry: what it does, its keys or "", and the function that does it."""

    title: str
    keys: str
    run: Callable[[], Awaitable[object] | None]


class _Source(Protocol):
    def palette_entries(self) -> Sequence[PaletteEntry]:
        """Return the entries of the application in their order."""


def is_movement(binding: Binding) -> bool:
    """Return whether a key only moves the cursor or the view."""
    return binding.action.rpartition(".")[2].partition("(")[0] in _MOVEMENTS


def by_use(active: ActiveBinding) -> tuple[bool, bool]:
    """Return the sort key of a binding: keys of the footer first, movements last."""
    return is_movement(active.binding), not active.binding.show


class EntryProvider(Provider):
    """Provides the entries of an application to Textual's palette."""

    def _displayed(self) -> list[tuple[PaletteEntry, int]]:
        entries = cast(_Source, self.app).palette_entries()
        width = max((len(entry.title) for entry in entries), default=0)
        return [(entry, width) for entry in entries]

    async def discover(self) -> Hits:
        """Yield all entries."""
        for entry, width in self._displayed():
            yield DiscoveryHit(_line(Content(entry.title), entry.keys, width), entry.run, text=entry.title)

    async def search(self, query: str) -> Hits:
        """Yield the entries that match, with their match highlighted."""
        matcher = self.matcher(query)
        for entry, width in self._displayed():
            if (score := matcher.match(entry.title)) > 0:
                title = matcher.highlight(entry.title)
                yield Hit(score, _line(title, entry.keys, width), entry.run, text=entry.title)


def _line(title: Content, keys: str, width: int) -> Content:
    blanks = " " * (width - title.cell_length + 3)
    return Content.assemble(title, blanks, (keys, "$primary")) if keys else title


def command_entries(commands: Sequence[ConsoleCommand]) -> list[PaletteEntry]:
    """Return an entry for each value of the commands."""
    return [
        PaletteEntry(f"{command.word} {value}", "", partial(command.run, [value]))
        for command in commands
        for value in command.values
    ]
