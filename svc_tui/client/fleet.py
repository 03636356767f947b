"""The fleet of `GET /fleet`, as values and texts for the command line and the Console."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, tzinfo
from typing import Any

from svc_tui.terminal.units import duration, plural

MAX_SKEW_SECONDS = 5.0
"""Difference of clocks from which it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node as the one that was asked observes it. `seen` is an RFC 3339 time.

    `name` is the first part of the id, if it is unique. `joined`: it waits for the fleet to serve, and until
    then nodes do not observe each other. `tables`: how far its copies of tables are behind their logs.
    """

    id: str
    name: str
    address: str
    role: str
    version: str
    this: bool
    present: bool
    joined: bool
    starting: bool
    draining: bool
    leads: bool
    seen: str | None
    skew_seconds: float | None
    lag_ms: int | None
    tables: str
    copies: Sequence[Mapping[str, str]] | None

    @property
    def good(self) -> bool:
        """True if nothing about the node needs attention."""
        return self.joined or (self.present and not self.draining and not self.skewed)

    @property
    def reached(self) -> bool:
        """True if the node runs, as far as the one that was asked observes it."""
        return self.present or self.starting

    @property
    def skewed(self) -> float:
        """The seconds by which its clock is ahead of that of the asked node. 0 for few."""
        skew = self.skew_seconds or 0.0
        return skew if abs(skew) >= MAX_SKEW_SECONDS else 0.0

    def state(self, zone: tzinfo | None = None) -> str:
        """Return whether the node answers, since when not, and the difference of its clock."""
        if self.joined:
            return "joined"
        if self.starting:
            return "starting"
        if not self.present:
            seen = datetime.fromisoformat(self.seen).astimezone(zone) if self.seen else None
            return f"away since {seen:%H:%M:%S}" if seen else "away"
        state = "draining" if self.draining else "present"
        return f"{state}, clock {self.skewed:+.0f} s" if self.skewed else state


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFleet:
    """A fleet. `needed` nodes must join before it serves."""

    fleet: str
    serving: bool
    healthy: bool
    quorum: bool
    needed: int
    nodes: Sequence[ObservedNode]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ObservedFleet":
        """Parse the fleet of `GET /fleet`."""
        parts, nodes = [node["id"].partition("-")[0] for node in document["nodes"]], []
        for node, part in zip(document["nodes"], parts, strict=True):
            name = part if parts.count(part) == 1 else node["id"]
            joined, tables = not (document["serving"] or node["this"]), "-"
            if node["present"] and node["lag_ms"] is not None:
                tables = lag_text(node["lag_ms"])
            elif node["present"] and document["quorum"]:
                tables = "none open"  # Its first request that needs tables opens a copy.
            added = {"name": name, "joined": joined, "tables": tables}
            nodes.append(ObservedNode(**_members(ObservedNode, {**node, **added})))
        return cls(**_members(cls, {**document, "nodes": nodes}))

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


def _members(shape: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a document that a dataclass has. Another version of svc may have others."""
    return {field.name: document.get(field.name) for field in fields(shape)}
