"""The history of a run: what clients sent and observed, and whether a correct fleet answers so."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

Outcome = Literal["acked", "unknown", "refused"]
"""`unknown`: the write may be stored. `refused`: the answer says that it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A row that a client sent to a node. Times are those of one monotonic clock, in seconds."""

    text: str
    node: int
    begin: float
    end: float
    outcome: Outcome
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A read of the row `text`, acknowledged before: whether it was there, and the number of rows.

    `acked` is the number of rows that were acknowledged to any client before the read began, 0 for a stale
    one. `broken` has the sums if they are not those of any transaction.
    """

    text: str
    node: int
    begin: float
    end: float
    found: int
    count: int
    acked: int
    broken: str = ""


@dataclass(slots=True)
class Verdict:
    """The result of a check. `missing`, `twice`, `foreign`, `stale`, `broken` and `flagged` must be 0."""

    acked: int
    unknown: int
    missing: int
    twice: int
    foreign: int
    stale: int
    broken: int
    differ: str
    stall: float
    """The longest time without an acknowledged write, in seconds."""
    entries: int = 0
    """The number of entries in the log of the tables."""
    flagged: int = 0
    """The number of entries that a correct log cannot have."""
    problem: str = ""
    """Why the fault could not be repaired, or which entries are flagged."""

    @property
    def sound(self) -> bool:
        """Return whether a correct fleet could have answered so."""
        return not (
            self.missing
            or self.twice
            or self.foreign
            or self.stale
            or self.broken
            or self.differ
            or self.flagged
            or self.problem
        )


@dataclass(slots=True)
class History:
    """All operations of one case. `run` begins the texts of its rows."""

    case: str
    seed: int
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    """The sums on each node at the end, empty if they are right."""

    @property
    def run(self) -> str:
        """The name of this run of the case."""
        return f"{self.case}-{self.seed}"

    def check(self, rows: Sequence[Sequence[str]]) -> Verdict:
        """Compare the history with the texts of this case's rows on each node."""
        acked = {write.text for write in self.writes if write.outcome == "acked"}
        unknown = {write.text for write in self.writes if write.outcome == "unknown"}
        counts = [Counter(texts) for texts in rows]
        missing = {text for text in acked if any(text not in count for count in counts)}
        twice = {text for count in counts for text, number in count.items() if number > 1}
        foreign = {text for count in counts for text in count if text not in acked | unknown}
        differ = [str(node) for node, count in enumerate(counts, 1) if count != counts[0]]
        stale = sum(read.count < read.acked or (read.acked > 0 and not read.found) for read in self.reads)
        ends = sorted(write.end for write in self.writes if write.outcome == "acked")
        stall = max((later - earlier for earlier, later in pairwise(ends)), default=0.0)
        return Verdict(
            acked=len(acked),
            unknown=len(unknown),
            missing=len(missing),
            twice=len(twice),
            foreign=len(foreign),
            stale=stale,
            broken=sum(map(bool, [*self.sums, *(read.broken for read in self.reads)])),
            differ=", ".join(differ),
            stall=stall,
        )

    def save(self, folder: Path, verdict: Verdict) -> None:
        """Store the operations as JSON lines, after the case, its seed, its faults and the verdict."""
        path = folder / f"{self.run}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        head = {"case": self.case, "seed": self.seed, "faults": self.faults, "verdict": asdict(verdict)}
        operations: list[Write | Read] = [*self.writes, *self.reads]
        operations.sort(key=lambda each: each.begin)
        with path.open("w") as file:
            for document in (head, *map(asdict, operations)):
                file.write(json.dumps(document) + "\n")
