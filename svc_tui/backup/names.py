"""Names of the objects of a backup, which have what a restore chooses by: sequences and times.

`values/<time>`: accounts, secrets and deployments. `blobs/<sha256>-<bytes>`: artifacts. Of the tables of a
project: `tables/<project>/<journal>/snapshot/<sequence>-<time>-<schema>` and
`tables/<project>/<journal>/entries/<first>-<last>-<time>-<gaps>`. `verified/<project>/<time>`: when a restore
of its tables was last found equal to them. `confirmed/<key>/<time>`: when a copy of the key with this id was
last proved to open the backup. Times are those of Unix in ns.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

SERVICE = "service"
"""Object with the id of the service that writes here."""
ID_FILE = "backup.json"
"""File of a data directory with the id of its service."""
VALUES, BLOBS, TABLES, VERIFIED, CONFIRMED = "values", "blobs", "tables", "verified", "confirmed"
_VALUES = re.compile(rf"{VALUES}/([0-9]{{20}})")
_BLOB = re.compile(rf"{BLOBS}/([0-9a-f]{{64}})-([0-9]+)")
_MARK = re.compile(r"([a-z]+)/([^/]+)/([0-9]{20})")
_JOURNAL = rf"{TABLES}/([^/]+)/([^/]+)"
_SNAPSHOT = re.compile(rf"{_JOURNAL}/snapshot/([0-9]+)-([0-9]+)-([0-9]+)")
_ENTRIES = re.compile(rf"{_JOURNAL}/entries/([0-9]+)-([0-9]+)-([0-9]+)-([0-9]+)")


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
    """Transactions of a journal: `time_ns` is that of the first one, `gaps` counts those without content."""

    project: str
    journal: str
    first: int
    last: int
    time_ns: int
    gaps: int

    @property
    def name(self) -> str:
        """The name of the object."""
        head = f"{TABLES}/{self.project}/{self.journal}/entries"
        return f"{head}/{self.first:016}-{self.last:016}-{self.time_ns:020}-{self.gaps}"


def values_times(names: Iterable[str]) -> list[int]:
    """Return the times of objects with values, in order. Other names are ignored."""
    return sorted(int(found[1]) for name in names if (found := _VALUES.fullmatch(name)))


def parse_blobs(names: Iterable[str]) -> dict[str, int]:
    """Return the digests and sizes of blobs. Other names are ignored."""
    return {found[1]: int(found[2]) for name in names if (found := _BLOB.fullmatch(name))}


def blob_name(digest: str, size: int) -> str:
    return f"{BLOBS}/{digest}-{size}"


def values_name(time_ns: int) -> str:
    return f"{VALUES}/{time_ns:020}"


def parse_marks(kind: str, names: Iterable[str]) -> dict[str, int]:
    """Return when projects were last `VERIFIED`, or keys `CONFIRMED`. Other names are ignored."""
    found = (_MARK.fullmatch(name) for name in sorted(names))
    return {each[2]: int(each[3]) for each in found if each is not None and each[1] == kind}


def mark_name(kind: str, subject: str, time_ns: int) -> str:
    """Return the name of the object that says when a project was `VERIFIED`, or a key `CONFIRMED`."""
    return f"{kind}/{subject}/{time_ns:020}"


def parse_tables(names: Iterable[str]) -> tuple[list[Snapshot], list[Entries]]:
    """Return what the names below `tables` stand for, each in the order of names. Others are ignored."""
    snapshots, entries = [], []
    for name in names:
        if found := _SNAPSHOT.fullmatch(name):
            project, journal, *numbers = found.groups()
            snapshots.append(Snapshot(project, journal, *map(int, numbers)))
        elif found := _ENTRIES.fullmatch(name):
            project, journal, *numbers = found.groups()
            entries.append(Entries(project, journal, *map(int, numbers)))
    return snapshots, entries
