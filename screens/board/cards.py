"""What is written in the nodes: a few lines of pieces, each line exactly as wide as its card.

Owns how numbers are said and which signs there are. Imports no Textual.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from screens.board.project import Door, Health, Rates, Resource, Stage
from screens.widgets.columns import PlacedColumn, fit_cell
from screens.widgets.row_source import Piece, Tone

Line = tuple[Piece, ...]
LINES = 3
"""Lines of the card of a Resource."""
NARROW, NARROW_DOOR = 22, 18
"""Cells below which a card has no room for every word."""
LEAST = 16
"""Cells below which a card of a Resource has a word a line."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What stands for how a node is; one cell each, and told apart without colours."""

    stages: dict[Stage, str]
    door: str


UNICODE_SIGNS = Signs({"waiting": "○", "building": "◌", "ready": "●", "failed": "▲"}, "◆")
ASCII_SIGNS = Signs({"waiting": "o", "building": "~", "ready": "*", "failed": "!"}, "#")
TONES: dict[Stage, Tone] = {"waiting": "dim", "building": "warn", "ready": "good", "failed": "bad"}


def resource_card(resource: Resource, health: Health, width: int, signs: Signs) -> tuple[Line, ...]:
    """Return the card of a Resource: name and lane; who may reach it and its rate; how its requests went.

    Where there is little room: its name; who may reach it; its rate, unless something is to be told of it.
    """
    stage, narrow = health.stage, width < NARROW
    name: Sequence[Piece] = ((f"{signs.stages[stage]} ", TONES[stage]), (resource.name, "bold"))
    tone: Tone = "" if health.rates.per_second else "dim"
    access: Piece = ("public", "") if resource.public else ("private", "dim")
    if width < LEAST:
        return _line(width, name, ()), _line(width, (("  ", ""), access), ()), _line(width, _told(health), ())
    return (
        _line(width, name, ((resource.lane, "dim"),)),
        _line(width, (("  ", ""), access), ((_rate(health.rates, width - len(access[0]) - 3), tone),)),
        _line(width, *_third(health, narrow=narrow)),
    )


def _told(health: Health) -> Sequence[Piece]:
    """Return the one thing to be told of a Resource where there is little room."""
    rates = health.rates
    if health.stage == "failed":
        return (("  failed", "bad"),)
    if rates.p95_ms is None:
        return ((f"  {'building' if health.stage == 'building' else health.stage}", "dim"),)
    if rates.errors:
        return ((f"! {percent(rates.errors)}", "bad"),)
    return (("  ", ""), (rate(rates.per_second), "" if rates.per_second else "dim"))


def _third(health: Health, *, narrow: bool) -> tuple[Sequence[Piece], Sequence[Piece]]:
    rates = health.rates
    if health.stage == "failed":
        return (("  build failed", "bad"),), ()
    if health.stage == "building" and rates.p95_ms is None:
        return (("  building", "warn"),), ()
    if rates.p95_ms is None:
        return (("  ready" if health.stage == "ready" else "  not built yet", "dim"),), ()
    right: Piece = (size(rates.peak_memory), "dim") if rates.peak_memory else ("", "")
    if rates.errors and narrow:
        return ((f"  {percent(rates.errors)} failed", "bad"),), ()
    if rates.errors:
        right = (f"{percent(rates.errors)} failed", "bad")
    return (("  " if narrow else "  p95 ", "dim"), (milliseconds(rates.p95_ms), "")), (right,)


def _rate(rates: Rates, room: int) -> str:
    said = rate(rates.per_second)
    return said if len(said) <= room else often(rates.per_second, "")


def door_card(name: str, door: Door, width: int, signs: Signs) -> tuple[Line, ...]:
    """Return the card of a Door: its name, and what it keeps or takes."""
    left, right = "", ""
    if door.tables is not None:
        left = "no tables" if not door.tables else "1 table" if door.tables == 1 else f"{door.tables} tables"
        right = size(door.size) if door.size and width >= NARROW_DOOR else ""
    if door.records is not None:
        said = [often(door.records, unit) for unit in (" records", " rec", "")]
        left = next((text for text in said if len(text) <= width - 2), said[-1])
    return (
        _line(width, ((f"{signs.door} ", "accent"), (name, "bold")), ()),
        _line(width, ((f"  {left}", "dim"),), ((right, "dim"),)),
    )


def _line(width: int, left: Sequence[Piece], right: Sequence[Piece]) -> Line:
    """Put pieces at both ends of a line; what is on the left is cut where both have no room."""
    taken = sum(cell_len(text) for text, _ in right)
    gap = 1 if taken else 0
    pieces = fit_cell(tuple(left), PlacedColumn(0, max(width - taken - gap, 0), False))
    return (*pieces, (" " * gap, ""), *right)


def rate(per_second: float) -> str:
    """Return requests per second for a person: `5 r/min`, `0.3 r/s`, `12 r/s`, `4.1k r/s`."""
    return often(per_second, " r")


def often(per_second: float, unit: str) -> str:
    """Return how often something happens, with a unit; by the minute where that is below six times."""
    if per_second >= 999.5:
        return f"{per_second / 1000:.1f}k{unit}/s"
    if per_second >= 9.95 or per_second < 0.005:
        return f"{per_second:.0f}{unit}/s"
    return f"{per_second:.1f}{unit}/s" if per_second >= 0.095 else f"{per_second * 60:.0f}{unit}/min"


def milliseconds(value: float) -> str:
    """Return a time for a person: `0.4 ms`, `6 ms`, `1.2 s`."""
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def size(count: float) -> str:
    """Return bytes for a person: `480 kB`, `0.9 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    return f"{count / 1000:.0f} kB" if count < 500_000 else f"{count / 1e6:.1f} MB"


def percent(part: float) -> str:
    """Return a part of 1 for a person: `2.1 %`."""
    return f"{part * 100:.1f} %" if part < 0.1 else f"{part * 100:.0f} %"
