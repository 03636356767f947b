"""The last requests of a resource as lines beside its details. Does not import Textual."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from screens.board.cards import Line
from screens.logs.format import began, method, status
from screens.widgets.columns import PlacedColumn, fit_cell
from svc_tui.terminal.units import clock, duration

REQUEST_CELLS = 46
"""Minimum width of a request."""
GAP = 3
"""Cells between details and requests."""
_AROUND = 35
"""Cells of a request without its path."""


def request_lines(records: Sequence[Mapping[str, Any]], room: int) -> list[Line]:
    """Return records of requests, newest first, in lines of `room` cells."""
    if not records:
        return [(("no requests in the last hour", "dim"),)]
    path = PlacedColumn(0, max(room - _AROUND, 8), False)
    return [
        (
            (f"{clock(began(record) + record['wall_ns'])}  ", "dim"),
            method(record["method"]),
            (" ", ""),
            *fit_cell(((record["target"], ""),), path),
            ("  ", ""),
            status(record["status"]),
            (f"  {duration(record['wall_ns']):>7}", ""),
        )
        for record in reversed(records)
    ]


def beside(left: Sequence[Line], right: Sequence[Line], room: int) -> list[Line]:
    """Return two texts side by side, the left one in `room` cells."""
    column = PlacedColumn(0, room, False)
    return [
        (*fit_cell(tuple(first), column), (" " * GAP, ""), *second)
        for first, second in zip_longest(left, right, fillvalue=())
    ]
