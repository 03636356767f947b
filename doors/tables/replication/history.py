"""History of a project's tables, from their journal: what wrote a row, tables at a moment, reverts."""

import json
import re
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from doors.tables.replication.copy import LogPosition, read_log_position
from doors.tables.replication.entry import Entry, Origin
from doors.tables.replication.errors import CannotApply
from doors.tables.replication.journal import FOLDER, JournalEntry, read_frames, segments
from doors.tables.replication.recorder import NO_KEY, stored_tables
from doors.tables.replication.registry import find_replica
from doors.tables.sqlite.catalog import Table, find, lookup, read, reserved
from doors.tables.sqlite.connections import (
    DATABASE_NAME,
    Connection,
    Error,
    apsw,
    is_replica,
    open_replica,
    recorder_of,
)
from doors.tables.sqlite.errors import TablesError, Value, fold, used_tables
from doors.tables.types.grid_cell import CUT, full_cell, key_column, stored
from engine.control.schemas import StrictModel
from engine.files.temporary import temporary_folder

SECONDS = 30.0
"""Time limit of a search, and of going back to a moment."""
MAX_WRITES = 1000
"""Maximum changes of rows in a response."""
_LOSES_ROWS = re.compile(r"\s*(drop\s+table\b|alter\s+table\b.*\b(drop|rename\s+to)\b)", re.I | re.S)
"""A statement that is not undone: it removes or renames a table, or removes a column."""
_INTERNAL = re.compile(r"\s*(create|alter|drop)\s+table\s+(if\s+(not\s+)?exists\s+)?_svc", re.I)
"""A statement about a table of svc's own, such as the record of migrations."""
_REASONS: Mapping[int, str] = {
    apsw.SQLITE_CHANGESET_DATA: "changed",
    apsw.SQLITE_CHANGESET_NOTFOUND: "deleted",
    apsw.SQLITE_CHANGESET_CONFLICT: "exists",
    apsw.SQLITE_CHANGESET_CONSTRAINT: "constraint",
}
_SET_SEQUENCE = "UPDATE sqlite_sequence SET seq = ? WHERE name = ?"
"""Sets the last key that a table with AUTOINCREMENT has used up."""
Operation = Literal["insert", "update", "delete"]
Row = dict[str, Any]
"""Cells by the names of columns, long ones truncated as in a grid."""


@dataclass(frozen=True, slots=True)
class Write:
    """An entry of the journal: when it was written, and what wrote it.

    `by` is `request`, or the way of a user: `edit`, `sql`, `schema`, `import`, `migration`, `revert`; empty
    if unknown. Several `requests` wrote together.
    """

    entry: str
    time_ns: int
    _: KW_ONLY
    by: str = ""
    deployment: str = ""
    user: str = ""
    requests: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """A change of a row: `before` and `after` have the changed cells, null where there was no row.

    `conflict` says why a revert cannot change it: `changed`, `deleted`, `exists` or `constraint`. Then
    `current` is the row as it is.
    """

    write: Write
    operation: Operation
    table: str
    _: KW_ONLY
    key: Row
    before: Row | None
    after: Row | None
    conflict: str = ""
    current: Row | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Changes of rows, newest first, and the time since which all are known; None before the first entry.

    `complete` is false if there are more before that time. `lacks` are the tables without a record.
    """

    rows: list[RowWrite]
    since_ns: int | None
    complete: bool
    lacks: list[str]


class At(StrictModel):
    """A moment: a time (Unix time in ns), or an entry, or the next one after or before it that wrote a table.

    The entry is part of the moment.
    """

    time_ns: int = 0
    entry: str = ""
    step: Literal[-1, 0, 1] = 0


def _position(connection: Connection) -> LogPosition:
    """Return the position of the last entry, or one before the first if there is none."""
    return read_log_position(connection) if is_replica(connection) else LogPosition("", 0, "", 0, 0)


def _entries(path: Path, position: LogPosition) -> Iterator[tuple[JournalEntry, Entry]]:
    """Yield the entries up to a position, newest first. Raises `SvcError`."""
    replica = find_replica(path)
    for each in _in_journal(path, position) if replica is None else reversed(replica.entries()):
        try:
            entry = Entry.decode(each.content)
        except CannotApply as error:
            raise TablesError(f"the journal cannot be read: {error}", "Update svc.") from error
        if entry.kind == "image":  # The tables were copied to the fleet with it.
            return
        if each.sequence <= position.sequence:
            yield each, entry


def _in_journal(path: Path, position: LogPosition) -> Iterator[JournalEntry]:
    """Yield the entries of a journal up to a position, newest first."""
    expected = position.sequence
    with suppress(FileNotFoundError):  # The oldest ones are removed meanwhile.
        for segment in reversed(segments(path.parent / FOLDER / position.log)):
            for each in reversed([*read_frames(segment.read_bytes())]):
                if each.sequence > expected:
                    continue
                if each.sequence < expected:
                    return
                expected -= 1
                yield each


def _write_of(log: str, stored: JournalEntry, origin: Origin) -> Write:
    by, deployment, user, requests = origin
    entry = f"{log}-{stored.sequence}"
    return Write(entry, stored.time_ns, by=by, deployment=deployment, user=user, requests=[*requests])


def _origin(entry: Entry, part: int) -> Origin:
    return entry.origins[part] if len(entry.origins) > 1 else (*entry.origins, Origin())[0]


def _cells(table: Table | None, values: Sequence[Any] | None, only: set[int] | None = None) -> Row | None:
    """Return the cells of values by column. Those of an unchanged column, or not of `only`, are left out."""
    if values is None:
        return None
    columns = table.stored if table is not None else ()
    row: Row = {}
    for index, value in enumerate(values):
        if value is apsw.no_change or (only is not None and index not in only):
            continue
        name, type = (
            (columns[index].name, columns[index].type)
            if index < len(columns)
            else (f"column {index + 1}", "")
        )
        if isinstance(value, str | bytes) and len(value) > CUT:
            cut = {"text": value[:CUT]} if isinstance(value, str) else full_cell(value[:CUT], type)
            row[name] = {"size": len(value), **cut}
        else:
            row[name] = full_cell(value, type)
    return row


def _row_write(write: Write, table: Table | None, change: Any) -> RowWrite:
    operation: Operation = change.op.lower()
    key = change.pk_columns
    others = set(range(change.column_count)) - key if operation == "update" else None
    return RowWrite(
        write,
        operation,
        change.name,
        key=_cells(table, change.new if operation == "insert" else change.old, key) or {},
        before=_cells(table, change.old, others),
        after=_cells(table, change.new, others),
    )


def _key_of(found: Table, cells: Sequence[Any]) -> list[Value]:
    """Return the stored key of a row for its cells. Raises `TablesError`."""
    if not found.key:
        raise _without_key(found)
    if len(found.key) != len(cells):
        names = ", ".join(found.key)
        example = json.dumps([12 if found.column(each).type == "integer" else "x" for each in found.key])
        raise TablesError(
            f"the key of {found.name} is {names}: {len(found.key)} values, not {len(cells)}",
            f"Pass {names} as a list: '{example}'.",
        )
    try:
        return [
            stored(cell, found, key_column(found, name), "")
            for name, cell in zip(found.key, cells, strict=True)
        ]
    except ValueError as error:
        raise TablesError(f"the key of {found.name} {error}", f"It is {', '.join(found.key)}.") from error


def _without_key(table: Table) -> TablesError:
    return TablesError(f"{table.name} has no primary key, so its rows have no history", "Add a primary key.")


def require_keys(connection: Connection, sql: str) -> None:
    """Raise `TablesError` if a statement reads a table without a primary key, whose rows are not recorded."""
    tables = read(connection)
    with suppress(Error):  # The statement fails where it is run.
        for _, name in sorted(used_tables(connection, sql)):
            if (found := lookup(tables, name)) is not None and found.kind == "table" and not found.key:
                raise _without_key(found)


def _in_changeset(value: Value) -> bytes:
    """Return bytes that a changeset with a value has; empty if unknown."""
    if isinstance(value, int):
        return struct.pack(">q", value)
    return value.encode(errors="surrogatepass") if isinstance(value, str) else b""


class _Past:
    """The schema as it was, entry by entry back, and a table that is followed through its changes."""

    def __init__(self, connection: Connection, table: str = "") -> None:
        """Begin with the schema of a connection."""
        self._schema = open_replica(Path(":memory:"))
        self._schema.pragma("legacy_alter_table", True)  # Others need not exist.
        for _, sql in stored_tables(connection).values():
            self._schema.execute(sql)
        self._table = self._followed = table
        self.tables = read(self._schema)
        self.close = self._schema.close

    @property
    def table(self) -> Table | None:
        """The followed table; None while it did not exist."""
        return lookup(self.tables, self._followed)

    def undo(self, entry: Entry, part: int) -> bool:
        """Undo a statement of an entry. Return whether the schema before it is known."""
        sql = next((sql for index, sql, _ in entry.undo if index == part), "")
        text = entry.parts[part]
        if not sql:
            return not isinstance(text, str) or _LOSES_ROWS.match(text) is None
        before = {fold(name): root for root, (name, _) in stored_tables(self._schema).items()}
        self._schema.execute(sql)
        after = {root: name for root, (name, _) in stored_tables(self._schema).items()}
        followed = after.get(before.get(fold(self._followed), 0), self._followed)
        self._followed = followed if followed in after.values() else self._table
        self.tables = read(self._schema)
        return True


def find_writes(
    connection: Connection,
    *,
    table: str = "",
    key: Sequence[Any] = (),
    column: str = "",
    request: str = "",
    limit: int = MAX_WRITES,
) -> History:
    """Return what wrote a row, or one cell of it, or what a request wrote. Raises `TablesError`.

    A row of a table that was dropped, created again or renamed is followed by its key.
    """
    position, end = _position(connection), time.monotonic() + SECONDS
    rows: list[RowWrite] = []
    lacks: dict[str, None] = {}
    since_ns: int | None = None
    complete = is_known = True
    with closing(_Past(connection, table)) as past:
        values = _key_of(found, key) if (found := past.table) is not None else None
        column = found.column(column).name if column and found is not None else column
        for stored_entry, entry in _entries(Path(connection.filename), position):
            if len(rows) >= limit or time.monotonic() > end:
                complete = False
            if not complete or not is_known:
                break
            since_ns = stored_entry.time_ns
            is_named = request.encode() in stored_entry.content
            if entry.lacks and is_named and (request or not entry.lacks.endswith(NO_KEY)):
                lacks[entry.lacks] = None
            if not is_named and not entry.undo:
                continue
            for index, part in reversed([*enumerate(entry.parts)]):
                origin = _origin(entry, index)
                if isinstance(part, str):
                    is_known = is_known and past.undo(entry, index)
                    if found != (found := past.table) and found is not None:
                        try:
                            values = _key_of(found, key)
                        except TablesError:  # The rows had another key.
                            is_known = False
                elif is_known and (request in origin.requests if request else found is not None):
                    write = _write_of(position.log, stored_entry, origin)
                    rows += _changes(write, part, past.tables, found, values or (), column)
    if table and values is None:
        find(read(connection), table, "not-found")
    return History(rows[:limit], since_ns, complete and len(rows) <= limit, list(lacks))


def _changes(
    write: Write,
    part: bytes,
    tables: Mapping[str, Table],
    found: Table | None,
    values: Sequence[Value],
    column: str,
) -> Iterator[RowWrite]:
    """Yield the changes of a changeset, or only those of one row of a table, or of its column."""
    names = [each.name for each in found.stored] if found is not None else []
    places = [names.index(each) for each in found.key] if found is not None else []
    needles = [found.name.encode(), *map(_in_changeset, values)] if found is not None else []
    if not all(needle in part for needle in needles):
        return
    for change in apsw.Changeset.iter(part):
        if reserved(change.name) or (found is not None and change.name != found.name):
            continue
        row = (change.new if change.op == "INSERT" else change.old) or ()
        if [row[place] for place in places] != [*values]:
            continue
        each = _row_write(write, tables.get(change.name), change)
        if column:
            before, after = (
                None if side is None else {k: v for k, v in side.items() if k == column}
                for side in (each.before, each.after)
            )
            if not before and not after:
                continue
            each = replace(each, before=before, after=after)
        yield each


@contextmanager
def tables_at(connection: Connection, at: At, table: str = "") -> Iterator[tuple[Path, Write]]:
    """Copy the tables as they were at a moment, by undoing the entries after it.

    Yields the file and the last entry of the moment. Tables without a primary key are as they are now, and
    columns and tables that were added later are in it. Raises `TablesError`, SQLite's errors and OSError.
    """
    with _copied(connection) as (copy, path, position):
        stored_entry, entry = _find_moment(path, position, at, table)
        _undo(copy, path, position, stored_entry.sequence)
        yield Path(copy.filename), _write_of(position.log, stored_entry, _origin(entry, len(entry.parts) - 1))


@contextmanager
def tables_before(connection: Connection, time_ns: int) -> Iterator[tuple[Connection, int, list[str]]]:
    """Copy the tables as they were before a time, as far as their journal goes.

    Yields the copy, the number of undone changes, and what is as it is now. Raises as `tables_at` does.
    """
    with _copied(connection) as (copy, path, position):
        entries = (each for each, _ in _entries(path, position) if each.time_ns < time_ns)
        last = next((each.sequence for each in entries), 0)
        try:
            undone, lacks = _undo(copy, path, position, last)
        except TablesError as error:
            undone, lacks = 0, [error.message]
            copy.execute("ROLLBACK")
        yield copy, undone, lacks


@contextmanager
def _copied(connection: Connection) -> Iterator[tuple[Connection, Path, LogPosition]]:
    path = Path(connection.filename)
    size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    if shutil.disk_usage(path.parent).free < 2 * size:
        raise TablesError(
            "the disk has no room for a copy of the tables", "Free some space.", code="storage-full"
        )
    with temporary_folder("svc-at-", path.parent) as folder:
        target = folder / DATABASE_NAME
        with closing(Connection(str(target))) as copy, copy.backup("main", connection, "main") as backup:
            backup.step(-1)
        with closing(open_replica(target)) as copy:
            yield copy, path, _position(copy)


def _find_moment(path: Path, position: LogPosition, at: At, table: str) -> tuple[JournalEntry, Entry]:
    """Return the last entry of a moment. Steps find entries that wrote a table. Raises `TablesError`."""
    sequence = _sequence(position, at.entry) if at.entry else 0
    later: tuple[JournalEntry, Entry] | None = None
    steps, oldest_ns = 1 - at.step, 0
    for moment in _entries(path, position):
        stored_entry, entry = moment
        oldest_ns = stored_entry.time_ns
        writes = any(isinstance(part, bytes) and table.encode() in part for part in entry.parts)
        after = stored_entry.sequence > sequence if at.entry else stored_entry.time_ns > at.time_ns
        if after:
            later = moment if writes else later
        elif at.step > 0:
            break
        elif at.step == 0 or writes:
            steps -= 1
            if not steps:
                return moment
    if later is not None and at.step > 0:
        return later
    if at.step > 0:
        raise TablesError(
            f"nothing was written to {table} after that", "It is as it is now.", code="conflict"
        )
    since = f"at {text_of(oldest_ns)}" if oldest_ns else "with the next write"
    raise TablesError(
        f"the history of {table or 'the tables'} begins {since}",
        "`svc restore --at TIME` restores a backup; `svc serve --log-days N` sets the days of both.",
    )


def _sequence(position: LogPosition, entry: str) -> int:
    log, _, number = entry.rpartition("-")
    if log != position.log or not number.isdecimal():
        raise TablesError(
            f"the history has no entry {entry}", "`svc tables blame` lists them.", code="not-found"
        )
    return int(number)


def text_of(time_ns: int) -> str:
    """Return a time in UTC, in seconds."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _undo(copy: Connection, path: Path, position: LogPosition, last: int) -> tuple[int, list[str]]:
    """Undo the entries after one; return the number of changes, and what they lack. Raises `TablesError`."""
    lacks: dict[str, None] = {}
    undone, numbered = 0, set[str]()
    end = time.monotonic() + SECONDS
    copy.pragma("legacy_alter_table", True)
    copy.execute("BEGIN IMMEDIATE")
    for stored_entry, entry in _entries(path, position):
        if stored_entry.sequence <= last:
            for name in numbered & entry.sequences.keys():
                copy.execute(_SET_SEQUENCE, (entry.sequences[name] or 0, name))
            numbered -= entry.sequences.keys()
            if not numbered:
                break
            continue
        at = text_of(stored_entry.time_ns)
        if time.monotonic() > end:
            raise TablesError(
                f"going back to that moment takes longer than {SECONDS:.0f} s; {at} is reached",
                "Name a later moment, or restore a backup: svc restore --at TIME.",
                code="timeout",
            )
        if entry.lacks:
            lacks[entry.lacks] = None
        numbered |= entry.sequences.keys()
        if entry.kind == "gap" and not entry.lacks.endswith(NO_KEY):
            raise TablesError(f"the transaction at {at} has no record: {entry.lacks}", "Name a later moment.")
        exact = {index: sql for index, sql, is_exact in entry.undo if is_exact}
        for index, part in reversed([*enumerate(entry.parts)]):
            if isinstance(part, str) and index not in exact:
                if _LOSES_ROWS.match(part):
                    raise TablesError(
                        f"the tables before {at} had another schema: {' '.join(part.split())[:80]}",
                        "Name a later moment, or restore a backup: svc restore --at TIME.",
                    )
                continue
            try:
                if isinstance(part, str):
                    copy.execute(exact[index])
                    continue
                inverse = apsw.Changeset.invert(part)
                undone += sum(not reserved(each.name) for each in apsw.Changeset.iter(inverse))
                apsw.Changeset.apply(inverse, copy)
            except Error as error:
                raise TablesError(
                    f"the transaction at {at} cannot be undone: another program has written to the tables",
                    "Name a later moment.",
                ) from error
    for name in numbered:
        copy.execute(_SET_SEQUENCE, (0, name))
    copy.execute("COMMIT")
    return undone, list(lacks)


@dataclass(frozen=True, slots=True)
class Reverted:
    """The rows that a revert changes. `applied` is false for a plan, and if there are conflicts."""

    rows: list[RowWrite]
    applied: bool


def _fits(then: Table, now: Table | None) -> bool:
    """Return whether changes of a table can be applied now: columns may have been added at its end."""
    names = [each.name for each in then.stored]
    current = [each.name for each in now.stored] if now is not None else []
    return now is not None and current[: len(names)] == names and now.key == then.key


def _not_reverted(write: Write, reason: str, hint: str = "Change the rows by hand.") -> TablesError:
    return TablesError(f"what was written at {text_of(write.time_ns)} cannot be reverted: {reason}", hint)


def revert(connection: Connection, entry: str, *, plan: bool, skip: bool) -> Reverted:
    """Undo one entry in a transaction, or plan it. `skip` leaves out rows that have changed since.

    Raises `TablesError`.
    """
    path, catalog = Path(connection.filename), read(connection)
    position = read_log_position(connection)
    sequence = _sequence(position, entry)
    found, is_known = None, True
    with closing(_Past(connection)) as past:
        for found in _entries(path, position):
            if found[0].sequence <= sequence:
                break
            for index in reversed(range(len(found[1].parts))):
                is_known = is_known and past.undo(found[1], index)
        then = past.tables
    if found is None or found[0].sequence != sequence:
        raise TablesError(f"the history has no entry {entry}", "It may be too old.", code="not-found")
    write = _write_of(position.log, found[0], _origin(found[1], 0))
    changesets = [part for part in found[1].parts if isinstance(part, bytes)]
    written = {each.name for part in changesets for each in apsw.Changeset.iter(part)}
    for name in sorted(each for each in written if not reserved(each)):
        if not is_known or name not in then or not _fits(then[name], catalog.get(name)):
            raise _not_reverted(write, f"the schema of {name} has changed since")
    if found[1].lacks:
        raise _not_reverted(write, f"its record lacks {found[1].lacks}")
    for part in found[1].parts:
        if isinstance(part, str) and not _INTERNAL.match(part):
            back = f"--before-deployment {write.deployment}" if write.deployment else "--at TIME"
            hint = f"Undo it in a new migration, or restore a backup: svc restore {back}."
            raise _not_reverted(write, f"{' '.join(part.split())[:80]} changed the schema", hint)
    done: list[RowWrite] = []
    conflicts: dict[tuple[str, str], RowWrite] = {}

    def on_conflict(reason: int, change: Any) -> int:
        if reason not in _REASONS:
            return int(apsw.SQLITE_CHANGESET_ABORT)
        table = catalog.get(change.name)
        current = _cells(table, change.conflict) if reason == apsw.SQLITE_CHANGESET_DATA else None
        each = _row_write(write, table, change)
        conflicts[each.table, str(each.key)] = replace(each, conflict=_REASONS[reason], current=current)
        return int(apsw.SQLITE_CHANGESET_OMIT)

    recorder = recorder_of(connection)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # What triggers wrote is in the entry.
    connection.execute("BEGIN IMMEDIATE")
    try:
        recorder.begin_rows()
        for part in reversed(changesets):
            inverse = apsw.Changeset.invert(part)
            changes = (each for each in apsw.Changeset.iter(inverse) if not reserved(each.name))
            done += [_row_write(write, catalog.get(each.name), each) for each in changes]
            apsw.Changeset.apply(
                inverse, connection, filter=lambda name: not reserved(name), conflict=on_conflict
            )
        recorder.end_rows()
        applied = not plan and (skip or not conflicts)
        connection.execute("COMMIT" if applied else "ROLLBACK")
    except (apsw.AbortError, apsw.ConstraintError) as error:
        raise _not_reverted(write, "rows would refer to missing rows") from error
    finally:
        recorder.end_rows()
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    rows = [conflicts.get((each.table, str(each.key)), each) for each in done]
    return Reverted(rows[:MAX_WRITES], applied)
