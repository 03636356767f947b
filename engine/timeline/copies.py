"""Copies of the records of other nodes of a fleet: their form between nodes, and pages to copy.

A batch has the cursor after which it begins, so that the other node notices whether it lacks records before.
"""

import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.timeline.database import FIELDS
from engine.timeline.query import open_reader, text_bytes

Rows = Sequence[Sequence[Any]]
PAGE_RECORDS, PAGE_BYTES = 1000, 256 << 10
"""Maximum size of a page: to parse a larger one would hold the interpreter's lock for long."""
MESSAGE_RECORDS = 64
"""Maximum records of a published batch, of which the last one may exceed the size of a page."""
SERIES_FIELDS = 11
UNKNOWN = -1
"""Begin of a batch if the cursor before it is unknown. It exceeds no other."""


class Publisher(Protocol):
    """Sends the records of a project to the other nodes. May be called from any thread."""

    @property
    def node(self) -> str:
        """The id of this node."""

    def publish(self, after: int, rows: Rows, series: Rows) -> None:
        """Send rows of records, which follow that at `after`, and rows of series.

        The row of a record has its cursor, the values of `FIELDS`, and the time at which it was written.
        """


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch of another node.

    `on_written` is called from any thread, with the last copied cursor, or None if the batch was dropped, and
    with true if the batch was not written because it was dropped or records before it are missing.
    """

    node: str
    content: bytes
    on_written: Callable[[int | None, bool], None]


def encode_batch(after: int, rows: Rows, series: Rows) -> bytes:
    """Return the form that `decode_batch` reads."""
    return zlib.compress(json.dumps([after, rows, series], ensure_ascii=False).encode(), 1)


def decode_batch(content: bytes) -> tuple[int, Rows, Rows]:
    """Return the begin, the records and the series of a batch, without those of another version of svc."""
    try:
        after, rows, series = json.loads(zlib.decompress(content))
    except (zlib.error, ValueError):
        return UNKNOWN, (), ()
    return (
        after,
        [row for row in rows if len(row) == len(FIELDS) + 2],
        [row for row in series if len(row) == SERIES_FIELDS],
    )


def messages(after: int, rows: Rows, series: Rows) -> Iterator[bytes]:
    """Yield batches of a bounded size."""
    part, size = list[Sequence[Any]](), 0
    for row in rows:
        part.append(row)
        size += text_bytes(row)
        if len(part) == MESSAGE_RECORDS or size > PAGE_BYTES:
            yield encode_batch(after, part, series)
            after, series, part, size = row[0], (), [], 0
    if part or series:
        yield encode_batch(after, part, series)


def read_page(path: Path, node: str, after: int) -> dict[str, Any]:
    """Return the next records of a node ("": this one) after its cursor, as JSON. Raises `TimelineError`.

    `content` is a batch in base64. At the `end` it has no records, but the series. `lost` says that records
    before it may have been removed. `copied` are the nodes with copies here.
    """
    rows, series, lost, copied = list[Sequence[Any]](), list[Sequence[Any]](), False, list[str]()
    if (reader := open_reader(path)) is not None:
        with closing(reader):
            rows, series, lost = reader.page_of(node, after, PAGE_RECORDS, PAGE_BYTES)
            copied = list(reader.copied())
    content = b64encode(encode_batch(after, rows, series)).decode()
    return {"content": content, "end": not rows, "lost": lost, "copied": copied}
