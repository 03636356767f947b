"""Text about the fleet that serves a project. Does not import Textual."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from rich.cells import cell_len

from screens.board.cards import Line, Signs
from screens.widgets.row_source import Piece, Tone
from svc_tui.terminal.units import duration, plural

MAX_SKEW_SECONDS = 5.0
"""Difference of clocks from which it is shown."""
_GAP = 2
_HEADS = ("node", "state", "tables", "role", "svc", "address")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardNode:
    """A node as the one that was asked observes it. `seen` is an RFC 3339 time, or empty."""

    id: str
    name: str
    """The first part of the id, if it is unique."""
    address: str
    role: str
    version: str
    this: bool
    present: bool
    joined: bool
    """Whether it waits for the fleet to serve. Until then nodes do not observe each other."""
    starting: bool
    draining: bool
    leads: bool
    seen: str
    skew_seconds: float
    lag_ms: int | None

    @property
    def good(self) -> bool:
        """True if nothing about the node needs attention."""
        return self.joined or (self.present and not self.draining and not self.clock_differs)

    @property
    def reached(self) -> bool:
        """True if the node runs, as far as the one that was asked observes it."""
        return self.present or self.starting

    @property
    def clock_differs(self) -> bool:
        """True if the clock of the node differs too much from that of the node that was asked."""
        return abs(self.skew_seconds) >= MAX_SKEW_SECONDS

    def state(self, zone: tzinfo | None = None) -> str:
        """Return whether the node answers, since when not, and the difference of its clock."""
        if self.joined:
            return "joined"
        if self.starting:
            return "starting"
        if not self.present:
            return f"away since {_clock(self.seen, zone)}" if self.seen else "away"
        state = "draining" if self.draining else "present"
        return f"{state}, clock {self.skew_seconds:+.0f} s" if self.clock_differs else state

    def tables(self) -> str:
        """Return how far the copy of the tables is behind their log."""
        return "-" if self.lag_ms is None or not self.present else lag_text(self.lag_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFleet:
    """A fleet. `needed` nodes must join before it serves."""

    fleet: str
    serving: bool
    quorum: bool
    needed: int
    nodes: Sequence[BoardNode]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "BoardFleet":
        """Parse the fleet of `GET /fleet`."""
        names = [node["id"].partition("-")[0] for node in document["nodes"]]
        return cls(
            fleet=document["fleet"],
            serving=document["serving"],
            quorum=document["quorum"],
            needed=document["needed"],
            nodes=[
                BoardNode(
                    id=node["id"],
                    name=name if names.count(name) == 1 else node["id"],
                    address=node["address"],
                    role=node["role"],
                    version=node["version"],
                    this=node["this"],
                    present=node["present"],
                    joined=not (document["serving"] or node["this"]),
                    starting=node.get("starting", False),
                    draining=node.get("draining", False),
                    leads=node["leads"],
                    seen=node["seen"] or "",
                    skew_seconds=node["skew_seconds"] or 0.0,
                    lag_ms=node["lag_ms"],
                )
                for node, name in zip(document["nodes"], names, strict=True)
            ],
        )

    @property
    def lag_ms(self) -> int | None:
        return max((node.lag_ms for node in self.nodes if node.lag_ms is not None), default=None)

    def summary(self) -> str:
        """Return the number of nodes, and whether the fleet stores writes."""
        count, present = len(self.nodes), sum(node.present for node in self.nodes)
        if not self.serving:
            missing = self.needed - count
            until = f" until {missing} more join" if missing > 0 else ": run `svc fleet start`"
            return f"{count} of {self.needed} nodes; this service serves alone{until}"
        draining = sum(node.present and node.draining for node in self.nodes)
        but = f", {draining} of them draining" if draining else ""
        return f"{present} of {plural(count, 'node')} present{but}, quorum {'yes' if self.quorum else 'no'}"


def lag_text(lag_ms: int) -> str:
    return f"{duration(lag_ms * 1_000_000)} behind" if lag_ms else "current"


def _clock(time: str, zone: tzinfo | None) -> str:
    moment = datetime.fromisoformat(time.partition(".")[0].removesuffix("Z")).replace(tzinfo=UTC)
    return f"{moment.astimezone(zone):%H:%M:%S}"


def fleet_line(fleet: BoardFleet, room: int, signs: Signs) -> Line:
    """Return one line: the nodes, whether there is a quorum, and the lag of the tables.

    Where the nodes do not fit, it has the number of those that are present, and names the others.
    """
    if not fleet.serving:
        return (("fleet  ", "dim"), (fleet.summary(), "warn"))
    end = _end(fleet)
    some = [node for node in fleet.nodes if not node.good]
    good: Piece = (f"{signs.stages['ready']} {len(fleet.nodes) - len(some)} present", "good")
    for head in ((("fleet  ", "dim"),), ()):
        for nodes in (_nodes(fleet.nodes, signs), ((good, ("  ", "")), *_nodes(some, signs))):
            pieces = [*head, *(piece for node in nodes for piece in node), *end]
            if _width(pieces) <= room:
                return tuple(pieces)
    others = f"{len(some)} {'not ready' if any(node.reached for node in some) else 'away'}"
    return (good, ("  ", ""), (f"{signs.stages['waiting']} {others}", "bad"), ("  ", ""), *end)


def _width(pieces: Sequence[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


def _nodes(nodes: Sequence[BoardNode], signs: Signs) -> Sequence[Line]:
    return [
        (
            (f"{sign_of(node, signs)} ", tone_of(node)),
            (node.name, "bold" if node.this else ""),
            (" here" if node.this else "", "dim"),
            ("" if node.good else f" {node.state() if node.reached else 'away'}", tone_of(node)),
            ("  ", ""),
        )
        for node in nodes
    ]


def _end(fleet: BoardFleet) -> Line:
    quorum: Line = (("quorum yes", "dim"),) if fleet.quorum else (("quorum no", "bad"),)
    if fleet.lag_ms is None:
        return quorum
    return (*quorum, (", ", "dim"), (f"tables {lag_text(fleet.lag_ms)}", "warn" if fleet.lag_ms else "dim"))


def sign_of(node: BoardNode, signs: Signs) -> str:
    """Return the sign of a node's state."""
    if not node.present:
        return signs.stages["waiting"]
    return signs.stages["ready" if node.good else "building"]


def tone_of(node: BoardNode) -> Tone:
    """Return the tone of a node's state."""
    return "good" if node.good else "warn" if node.reached else "bad"


def fleet_details(fleet: BoardFleet, room: int, signs: Signs) -> tuple[str, list[Line]]:
    """Return title and lines about all nodes; the last columns are left out where they do not fit."""
    rows = [_row(node, signs) for node in fleet.nodes]
    widths = [max(cell_len(head), *(_width(row[at]) for row in rows)) for at, head in enumerate(_HEADS)]
    widths[0] = max(widths[0], cell_len(_HEADS[0]) + 2)
    columns = len(widths)
    while columns > 2 and sum(widths[:columns]) + _GAP * (columns - 1) > room:
        columns -= 1
    heads: list[Line] = [((f"  {head}" if at == 0 else head, "dim"),) for at, head in enumerate(_HEADS)]
    lines = [_aligned(row[:columns], widths) for row in [heads, *rows]]
    return f"fleet {fleet.fleet}", [*lines, (), *_notes(fleet)]


def _row(node: BoardNode, signs: Signs) -> list[Line]:
    tables = node.tables()
    lag: Tone = "warn" if node.lag_ms else "dim"
    return [
        (
            (f"{sign_of(node, signs)} ", tone_of(node)),
            (node.id, "bold" if node.this else ""),
            (" here" if node.this else "", "dim"),
        ),
        ((node.state(), "" if node.good else tone_of(node)),),
        ((tables, lag), (", leads" if node.leads else "", "dim")),
        ((node.role, "dim"),),
        ((node.version, "dim"),),
        ((node.address, "dim"),),
    ]


def _aligned(cells: Sequence[Line], widths: Sequence[int]) -> Line:
    pieces: list[Piece] = []
    for cell, width in zip(cells, widths, strict=False):
        pieces += [*cell, (" " * (width - _width(cell) + _GAP), "")]
    return tuple(pieces)


def _notes(fleet: BoardFleet) -> list[Line]:
    if not fleet.serving:
        return [((fleet.summary(), "warn"),)]
    if fleet.quorum:
        return [(("quorum yes", "good"), ("  most keepers answer: writes are stored", "dim"))]
    return [(("quorum no", "bad"), ("  most keepers do not answer: writes, deploys and logins fail", ""))]
