"""Names of the objects of a backup, which have what a restore chooses by: sequences and times.

`values/<time>`: accounts, secrets and deployments. `blobs/<sha256>-<bytes>`: artifacts. Of the tables of a
project: `tables/<project>/<journal>/snapshot/<sequence>-<time>-<schema>` and
`tables/<project>/<journal>/entries/<first>-<last>-<time>`. Times are those of Unix in ns, with 20 digits.
"""

from collections.abc import Iterable
from typing import NamedTuple

SERVICE = "service"
"""Object with the id of the service that writes here."""
VALUES, BLOBS, TABLES = "values", "blobs", "tables"


class Snapshot(NamedTuple):
    """A database of a project, whose last transaction is `sequence` of its journal."""

    project: str
    journal: str
    sequence: int
    time_ns: int
    schema: int

    @property
    def name(self) -> str:
        """The name of the object."""
        head = f"{TABLES}/{self.project}/{self.journal}/snapshot"
        return f"{head}/{self.sequence:016}-{self.time_ns:020}-{self.schema}"


class Entries(NamedTuple):
    """Transactions of a journal: `time_ns` is that of the first one."""

    project: str
    journal: str
    first: int
    last: int
    time_ns: int

    @property
    def name(self) -> str:
        """The name of the object."""
        head = f"{TABLES}/{self.project}/{self.journal}/entries"
        return f"{head}/{self.first:016}-{self.last:016}-{self.time_ns:020}"


def values_name(time_ns: int) -> str:
    """Return the name of the object with the values of a time."""
    return f"{VALUES}/{time_ns:020}"


def parse_tables(names: Iterable[str]) -> tuple[list[Snapshot], list[Entries]]:
    """Return what the names below `tables` stand for, each in the order of names. Others are ignored."""
    snapshots, entries = [], []
    for name in names:
        parts = name.split("/")
        if len(parts) != 5 or parts[0] != TABLES:
            continue
        _, project, journal, kind, rest = parts
        numbers = rest.split("-")
        if len(numbers) == 3 and all(number.isdecimal() for number in numbers):
            first, second, third = map(int, numbers)
            if kind == "snapshot":
                snapshots.append(Snapshot(project, journal, first, second, third))
            elif kind == "entries":
                entries.append(Entries(project, journal, first, second, third))
    return snapshots, entries
