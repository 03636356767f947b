"""The rows that a call changes, recorded in development: `[operation, table, row, new row, old, new]`.

`row` and `new row` are rowids; `old` and `new` are the values of all columns, or null. Blobs are
`{"base64": …}`.
"""

from collections.abc import Sequence
from time import time_ns
from typing import Any

from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.connections import Connection, apsw
from doors.tables.types.json import tagged_blob
from engine.trace import MAX_CAPTURE_BYTES, Capture

_ROW_BYTES = 100
"""Approximate size of a change besides its values."""


class RowChangeLog:
    """The changes of one writing connection. Use it on the thread of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._capture: Capture | None = None
        self._bytes = 0
        self._listening = False

    def begin(self, capture: Capture | None) -> None:
        """Add the changes of the following statements to a capture, without those of an earlier attempt."""
        self._capture, self._bytes = capture, 0
        if capture is None:
            return
        capture.changes, capture.time_ns = [], time_ns()
        if not self._listening:
            self._listening = True
            self._connection.preupdate_hook(self._add)
            # Compiles statements again, which may delete all rows of a table without a call of the hook.
            self._connection.authorizer = self._connection.authorizer

    def end(self) -> None:
        """End a capture."""
        self._capture = None

    def _add(self, update: Any) -> None:
        capture = self._capture
        if capture is None or reserved(update.table_name):
            return
        try:
            old, new = update.old, update.new
        except apsw.RangeError:  # The table has virtual columns, whose values SQLite does not pass.
            self._give_up(capture)
            return
        self._bytes += _ROW_BYTES + _size(old) + _size(new)
        if self._bytes > MAX_CAPTURE_BYTES:
            self._give_up(capture)
            return
        rows = update.rowid, update.rowid_new
        capture.changes.append([update.op, update.table_name, *rows, _cells(old), _cells(new)])

    def _give_up(self, capture: Capture) -> None:
        capture.changes, capture.complete = [], False
        self._capture = None


def _cells(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else [tagged_blob(value) for value in values]


def _size(values: Sequence[Any] | None) -> int:
    return sum(len(value) if isinstance(value, str | bytes) else 8 for value in values or ())
