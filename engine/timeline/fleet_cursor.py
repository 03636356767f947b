"""Position in the timelines of all nodes of a fleet."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_LENGTH = 8000
"""Maximum characters of a cursor's text."""
PATTERN = r"@([0-9]{1,16})((?:,[A-Za-z0-9_-]{1,64}:[0-9]{1,18})*)"
_CURSOR = re.compile(PATTERN)


@dataclass(frozen=True, slots=True)
class FleetCursor:
    """A position per node. Records of other nodes begin at `start_ms` (Unix time)."""

    start_ms: int
    positions: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        nodes = (f",{node}:{position}" for node, position in sorted(self.positions.items()))
        return f"@{self.start_ms}{''.join(nodes)}"

    def after(self, node: str, position: int) -> "FleetCursor":
        """Return the cursor after a record of a node."""
        return FleetCursor(self.start_ms, {**self.positions, node: position})

    @classmethod
    def parse(cls, text: str) -> "FleetCursor | None":
        """Return the cursor of a text such as `@1790000000000,n1-4f2a:17,n2-a1b2:5`, or None."""
        match = _CURSOR.fullmatch(text) if len(text) <= MAX_LENGTH else None
        if match is None:
            return None
        pairs = (part.rpartition(":") for part in match[2].split(",")[1:])
        return cls(int(match[1]), {node: int(position) for node, _, position in pairs})
