"""Text of the nodes: styled lines of equal width, and the formatting of numbers. Does not import Textual."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from screens.board.project import BoardDoor, BoardResource, Health, Rates, Stage
from screens.widgets.columns import PlacedColumn, fit_cell
from screens.widgets.row_source import Piece, Tone
from svc_tui.terminal.units import duration, plural, size

Line = tuple[Piece, ...]
CARD_LINES, TALL_CARD_LINES = 3, 4
"""Lines per resource card; a tall one shows the requests of the last minute."""
NARROW, NARROW_DOOR = 22, 18
"""Widths below which a resource card and a Door card are abbreviated."""
MIN_WIDTH = 16
"""Width below which a resource card has one value per line."""


@dataclass(frozen=True, slots=True)
class Signs:
    """One-cell signs for the states of a node, distinguishable without colors, and the levels of a bar."""

    stages: dict[Stage, str]
    door: str
    levels: str


UNICODE_SIGNS = Signs({"waiting": "○", "building": "◌", "ready": "●", "failed": "▲"}, "◆", "▁▂▃▄▅▆▇█")
ASCII_SIGNS = Signs({"waiting": "o", "building": "~", "ready": "*", "failed": "!"}, "#", "_.-:=+*#")
TONES: dict[Stage, Tone] = {"waiting": "dim", "building": "warn", "ready": "good", "failed": "bad"}
MANY_ERRORS = 0.1
"""The share of failed requests from which a resource counts as failing."""


def health_tone(health: Health) -> Tone:
    """Return the tone of a resource's state; a ready one warns of failed requests."""
    if health.stage == "ready" and health.rates.errors:
        return "bad" if health.rates.errors >= MANY_ERRORS else "warn"
    return TONES[health.stage]


def resource_card(
    resource: BoardResource, health: Health, width: int, signs: Signs, lines: int = CARD_LINES
) -> tuple[Line, ...]:
    """Return the card of a resource: name and lane, visibility and request rate, health.

    A narrow card has the name, the visibility, and the rate or the most important problem. A card of
    `TALL_CARD_LINES` lines ends with the requests of the last minute.
    """
    card = _resource_lines(resource, health, width, signs)
    if lines < TALL_CARD_LINES:
        return card
    return (*card, (("  ", ""), *sparkline(health.history, width - 2, signs.levels)))


def sparkline(history: Sequence[int], cells: int, levels: str) -> Line:
    """Return bars of the last numbers of a history; several numbers may share a cell."""
    share = max(len(history) // cells, 1)
    ends = range(len(history), 0, -share)[:cells]
    sums = [sum(history[max(end - share, 0) : end]) for end in reversed(ends)]
    peak, highest = max(sums, default=0) or 1, len(levels) - 1
    bars: list[Piece] = [
        (levels[-(-count * highest // peak)], "teal" if count else "faint") for count in sums
    ]
    return ((levels[0] * (cells - len(bars)), "faint"), *bars)


def _resource_lines(resource: BoardResource, health: Health, width: int, signs: Signs) -> tuple[Line, ...]:
    stage, narrow = health.stage, width < NARROW
    name: Sequence[Piece] = ((f"{signs.stages[stage]} ", health_tone(health)), (resource.name, "bold"))
    tone: Tone = "" if health.rates.per_second else "dim"
    access: Piece = ("public", "") if resource.public else ("private", "dim")
    if width < MIN_WIDTH:
        return (
            _line(width, name, ()),
            _line(width, (("  ", ""), access), ()),
            _line(width, _headline(health), ()),
        )
    return (
        _line(width, name, ((resource.lane, resource.tone),)),
        _line(width, (("  ", ""), access), ((_rate(health.rates, width - len(access[0]) - 3), tone),)),
        _line(width, *_third(health, narrow=narrow)),
    )


def _headline(health: Health) -> Sequence[Piece]:
    """Return the most important problem of a resource for a narrow card."""
    rates = health.rates
    if health.stage == "failed":
        return (("  failed", "bad"),)
    if rates.p95_ms is None:
        return ((f"  {'building' if health.stage == 'building' else health.stage}", "dim"),)
    if rates.errors:
        return ((f"! {format_percent(rates.errors)}", "bad"),)
    return (("  ", ""), (format_rate(rates.per_second), "" if rates.per_second else "dim"))


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
        return ((f"  {format_percent(rates.errors)} failed", "bad"),), ()
    if rates.errors:
        right = (f"{format_percent(rates.errors)} failed", "bad")
    return (("  " if narrow else "  p95 ", "dim"), (duration(int(rates.p95_ms * 1e6)), "")), (right,)


def _rate(rates: Rates, room: int) -> str:
    text = format_rate(rates.per_second)
    return text if len(text) <= room else format_frequency(rates.per_second, "")


def door_card(name: str, door: BoardDoor, width: int, signs: Signs) -> tuple[Line, ...]:
    """Return the card of a Door: its name and its size or rate."""
    left, right = "", ""
    if door.tables is not None:
        left = plural(door.tables, "table") if door.tables else "no tables"
        right = size(door.size) if door.size and width >= NARROW_DOOR else ""
    if door.records is not None:
        texts = [format_frequency(door.records, unit) for unit in (" records", " rec", "")]
        left = next((text for text in texts if len(text) <= width - 2), texts[-1])
    return (
        _line(width, ((f"{signs.door} ", "violet"), (name, "bold")), ()),
        _line(width, ((f"  {left}", "dim"),), ((right, "dim"),)),
    )


def _line(width: int, left: Sequence[Piece], right: Sequence[Piece]) -> Line:
    """Align pieces to both ends of a line; the left part is truncated if both do not fit."""
    right_width = sum(cell_len(text) for text, _ in right)
    gap = 1 if right_width else 0
    pieces = fit_cell(tuple(left), PlacedColumn(0, max(width - right_width - gap, 0), False))
    return (*pieces, (" " * gap, ""), *right)


def format_rate(per_second: float) -> str:
    """Return a request rate as text: `5 r/min`, `0.3 r/s`, `12 r/s`, `4.1k r/s`."""
    return format_frequency(per_second, " r")


def format_frequency(per_second: float, unit: str) -> str:
    """Return a rate with its unit; per minute below 0.1 per second."""
    if per_second >= 999.5:
        return f"{per_second / 1000:.1f}k{unit}/s"
    if per_second >= 9.95 or per_second < 0.005:
        return f"{per_second:.0f}{unit}/s"
    return f"{per_second:.1f}{unit}/s" if per_second >= 0.095 else f"{per_second * 60:.0f}{unit}/min"


def format_percent(fraction: float) -> str:
    """Return a fraction as text: `2.1 %`."""
    return f"{fraction * 100:.1f} %" if fraction < 0.1 else f"{fraction * 100:.0f} %"
