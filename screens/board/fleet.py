"""Text about the fleet that serves a project. Does not import Textual."""

from rich.cells import cell_len

from screens.board.cards import SIGNS, Line
from screens.board.project import Stage
from screens.widgets.row_source import Piece, Tone
from svc_tui.client.fleet import ObservedFleet, ObservedNode, lag_text

_GAP = 2
_HEADS = ("  node", "state", "tables", "role", "svc", "address")


def fleet_line(fleet: ObservedFleet, room: int) -> Line:
    """Return one line: the nodes, whether there is a quorum, and the lag of the tables.

    Where the nodes do not fit, it has the number of those that are present, and names the others.
    """
    if not fleet.serving:
        return (("fleet  ", "dim"), (fleet.summary(), "warn"))
    some = [node for node in fleet.nodes if not node.good]
    good: Line = ((f"{SIGNS['ready']} {len(fleet.nodes) - len(some)} present", "good"), ("  ", ""))
    end: Line = (("quorum yes", "dim"),) if fleet.quorum else (("quorum no", "bad"),)
    if fleet.lag_ms is not None:
        lag: Piece = (f"tables {lag_text(fleet.lag_ms)}", "warn" if fleet.lag_ms else "dim")
        end = (*end, (", ", "dim"), lag)
    for head in ((("fleet  ", "dim"),), ()):
        for first, nodes in (((), fleet.nodes), (good, some)):
            line = (*head, *first, *(piece for node in nodes for piece in _on_line(node)), *end)
            if _width(line) <= room:
                return line
    others = f"{len(some)} {'not ready' if any(node.reached for node in some) else 'away'}"
    return (*good, (f"{SIGNS['waiting']} {others}", "bad"), ("  ", ""), *end)


def fleet_details(fleet: ObservedFleet, room: int) -> tuple[str, list[Line]]:
    """Return title and lines about all nodes; the last columns are left out where they do not fit."""
    heads: list[Line] = [((head, "dim"),) for head in _HEADS]
    rows = [heads, *map(_row, fleet.nodes)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 2 and sum(widths) + _GAP * (len(widths) - 1) > room:
        widths.pop()
    lines: list[Line] = []
    for row in rows:
        cells = zip(row, widths, strict=False)
        lines.append(tuple(piece for cell, width in cells for piece in (*cell, _blank(cell, width))))
    return f"fleet {fleet.fleet}", [*lines, (), _note(fleet)]


def _row(node: ObservedNode) -> list[Line]:
    return [
        _marked(node, node.id),
        ((node.state(), "" if node.good else _tone(node)),),
        ((node.tables, "warn" if node.lag_ms else "dim"), (", leads" if node.leads else "", "dim")),
        ((node.role, "dim"),),
        ((node.version, "dim"),),
        ((node.address, "dim"),),
    ]


def _on_line(node: ObservedNode) -> Line:
    state = "" if node.good else f" {node.state() if node.reached else 'away'}"
    return (*_marked(node, node.name), (state, _tone(node)), ("  ", ""))


def _marked(node: ObservedNode, name: str) -> Line:
    """Return the sign of a node's state and its name."""
    stage: Stage = "waiting" if not node.present else "ready" if node.good else "building"
    return (
        (f"{SIGNS[stage]} ", _tone(node)),
        (name, "bold" if node.this else ""),
        (" here" if node.this else "", "dim"),
    )


def _tone(node: ObservedNode) -> Tone:
    return "good" if node.good else "warn" if node.reached else "bad"


def _note(fleet: ObservedFleet) -> Line:
    if not fleet.serving:
        return ((fleet.summary(), "warn"),)
    if fleet.quorum:
        return (("quorum yes", "good"), ("  most keepers answer: writes are stored", "dim"))
    return (("quorum no", "bad"), ("  most keepers do not answer: writes, deploys and logins fail", ""))


def _width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


def _blank(cell: Line, width: int) -> Piece:
    return " " * (width - _width(cell) + _GAP), ""
