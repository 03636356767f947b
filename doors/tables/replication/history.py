"""History of a project's tables, from their journal: what wrote a row, tables at a moment, reverts."""

import re
import shutil
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from doors.tables.replication.copy import CLOSED, LogPosition, read_log_position
from doors.tables.replication.entry import Entry, Origin, chain_of
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
    iso,
    open_replica,
    recorder_of,
)
from doors.tables.sqlite.errors import TablesError, Value, fold, quoted, rows, used_tables
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.grid_cell import CUT, Selected, cell, key_column, stored
from engine.control.schemas import StrictModel
from engine.files.temporary import temporary_folder

SECONDS = 30.0
"""Time limit of a search, and of going back to a moment."""
MAX_WRITES = 1000
"""Maximum changes of rows in a response."""
_LOSES_ROWS = re.compile(r"(drop table|alter table .* (drop|rename to|set not))\b", re.I)
"""A statement that is not undone: it removes or renames a table, or removes or restricts a column."""
_INTERNAL = re.compile(r"\s*(create|alter|drop)\s+table\s+(if\s+(not\s+)?exists\s+)?_svc", re.I)
"""A statement about a table of svc's own, such as the record of migrations."""
_REASONS: Mapping[int, str] = {
    apsw.SQLITE_CHANGESET_DATA: "changed",
    apsw.SQLITE_CHANGESET_NOTFOUND: "deleted",
    apsw.SQLITE_CHANGESET_CONFLICT: "exists",
    apsw.SQLITE_CHANGESET_CONSTRAINT: "constraint",
}
_UNIQUE = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE 'CREATE UNIQUE %'"
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


def _entries(path: Path, position: LogPosition) -> Iterator[tuple[JournalEntry, Entry]]:
    """Yield the entries up to a position, newest first, each by its hash in the next. Raises `SvcError`."""
    replica, chain = find_replica(path), position.chain
    for each in _in_journal(path, position) if replica is None else reversed(replica.entries()):
        if each.sequence > position.sequence or chain_of(each.content) != chain:
            continue
        try:
            entry = Entry.decode(each.content)
        except CannotApply as error:
            raise TablesError(f"the journal cannot be read: {error}", "Update svc.") from error
        if entry.kind == "image":  # The tables were copied to the fleet with it.
            return
        chain = entry.previous
        yield each, entry


def _in_journal(path: Path, position: LogPosition) -> Iterator[JournalEntry]:
    """Yield the entries of a journal, newest first."""
    try:
        for segment in reversed(segments(path.parent / FOLDER / position.log)):
            yield from reversed([*read_frames(segment.read_bytes())])
    except FileNotFoundError:  # The oldest ones are removed meanwhile.
        return
    except OSError as error:
        message = f"the journal cannot be read: {error.strerror}"
        raise TablesError(message, "Check the permissions of its folder, and the disk.") from error


def _words(sql: str) -> str:
    """Return a statement without comments, with `x` for quoted names and strings."""
    return " ".join("x" if each.kind in ("name", "string") else each.text for each in tokens(sql))


def _written(entry: Entry, only: str = "") -> set[str]:
    """Return the names of the tables, or of one of them, whose rows an entry changed."""
    changesets = (part for part in entry.parts if isinstance(part, bytes) and only.encode() in part)
    names = {each.name for part in changesets for each in apsw.Changeset.iter(part)}
    return names & {only} if only else names


def _write_of(log: str, stored: JournalEntry, entry: Entry, part: int) -> Write:
    origins = entry.origins
    by, deployment, user, requests = origins[part] if len(origins) > 1 else (*origins, Origin())[0]
    id = f"{log}-{stored.sequence}"
    return Write(id, stored.time_ns, by=by, deployment=deployment, user=user, requests=[*requests])


def _cells(table: Table | None, values: Sequence[Any] | None, only: set[int] | None = None) -> Row | None:
    """Return the cells of values by column. Those of an unchanged column, or not of `only`, are left out."""
    if values is None:
        return None
    columns = [(each.name, each.type) for each in table.stored] if table is not None else []
    row: Row = {}
    for index, value in enumerate(values):
        if value is apsw.no_change or (only is not None and index not in only):
            continue
        name, type = columns[index] if index < len(columns) else (f"column {index + 1}", "")
        data = value.encode() if isinstance(value, str) else value
        size = len(data) if isinstance(data, bytes) else None
        row[name] = cell(Selected(data[:CUT] if size else data, size, isinstance(value, str)), type, cut=CUT)
    return row


def _row_write(write: Write, table: Table | None, change: Any, only: set[int] | None = None) -> RowWrite:
    """Return a change of a row with the cells of all columns, or `only` some."""
    operation: Operation = change.op.lower()
    key = change.pk_columns
    if operation == "update":
        only = (set(range(change.column_count)) if only is None else only) - key
    return RowWrite(
        write,
        operation,
        change.name,
        key=_cells(table, change.new if operation == "insert" else change.old, key) or {},
        before=_cells(table, change.old, only),
        after=_cells(table, change.new, only),
    )


def _key_of(found: Table, cells: Sequence[Any]) -> list[Value]:
    """Return the stored key of a row for its cells. Raises `TablesError`."""
    if not found.key:
        raise _without_key(found)
    if len(found.key) != len(cells):
        names = ", ".join(found.key)
        raise TablesError(
            f"the key of {found.name} is {names}: {len(found.key)} values, not {len(cells)}",
            f"""Pass {names} as a list in JSON, such as '["x", 12]'.""",
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
    """The schema as it was, entry by entry back, and a row or cell that is followed through its changes."""

    def __init__(
        self, connection: Connection, table: str = "", key: Sequence[Any] = (), column: str = ""
    ) -> None:
        """Begin with the schema of a connection. Raises `TablesError`."""
        self._schema = open_replica(Path(":memory:"))
        self._schema.pragma("legacy_alter_table", True)  # Others need not exist.
        for _, sql in stored_tables(connection).values():
            self._schema.execute(sql)
        self._table = self._followed = table
        self._key = key
        self.tables = read(self._schema)
        self.found = lookup(self.tables, table)
        """The followed table; None while it did not exist."""
        self.values = _key_of(self.found, key) if self.found is not None else None
        self._column = self.found.column(column).name if column and self.found is not None else column
        self.close = self._schema.close

    def undo(self, entry: Entry, part: int) -> bool:
        """Undo a statement of an entry. Return whether the schema before it is known."""
        sql = next((sql for index, sql, _ in entry.undo if index == part), "")
        words = _words(text) if isinstance(text := entry.parts[part], str) else ""
        if not sql:
            return _LOSES_ROWS.match(words) is None
        before = {fold(name): root for root, (name, _) in stored_tables(self._schema).items()}
        self._schema.execute(sql)
        after = {root: name for root, (name, _) in stored_tables(self._schema).items()}
        followed = after.get(before.get(fold(self._followed), 0), self._followed)
        self._followed = followed if followed in after.values() else self._table
        self.tables = read(self._schema)
        later, self.found = self.found, lookup(self.tables, self._followed)
        if self.found is not None and self.found != later:
            try:
                self.values = _key_of(self.found, self._key)
            except TablesError:  # The rows had another key.
                return False
            if later is not None and words.lower().startswith("alter "):  # It may rename a column.
                names = zip(later.stored, self.found.stored, strict=False)
                self._column = {then.name: now.name for then, now in names}.get(self._column, self._column)
        return True

    def changes(self, write: Write, part: bytes, lacks: dict[str, None]) -> Iterator[RowWrite]:
        """Yield the changes of a changeset, or the followed ones. Adds to `lacks` what it cannot read."""
        names = [each.name for each in self.found.stored] if self.found is not None else []
        key = self.found.key if self.found is not None else ()
        places = {at for at, name in enumerate(names) if name == self._column}
        only = places if self._column else None
        needles = map(
            _in_changeset, [self.found.name, *(self.values or ())] if self.found is not None else ()
        )
        if not all(needle in part for needle in needles):
            return
        for change in apsw.Changeset.iter(part):
            if reserved(change.name) or (self.found is not None and change.name != self.found.name):
                continue
            try:
                row = (change.new if change.op == "INSERT" else change.old) or ()
                if [row[names.index(each)] for each in key] != [*(self.values or ())]:
                    continue
                each = _row_write(write, self.tables.get(change.name), change, only)
            except UnicodeDecodeError:
                lacks[f"rows of table {change.name} with text that is not UTF-8"] = None
                continue
            if only is None or each.before or each.after:
                yield each


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
    position = read_log_position(connection) if is_replica(connection) else CLOSED
    rows: list[RowWrite] = []
    lacks: dict[str, None] = {}
    since_ns: int | None = None
    end = time.monotonic() + SECONDS
    is_known = complete = True
    with closing(_Past(connection, table, key, column)) as past:
        for stored_entry, entry in _entries(Path(connection.filename), position):
            if not (complete := len(rows) < limit and time.monotonic() < end) or not is_known:
                break
            since_ns = stored_entry.time_ns
            is_named = request.encode() in stored_entry.content
            found = (each for each in entry.lacks.split("; ") if request or not each.endswith(NO_KEY))
            lacks |= dict.fromkeys(filter(None, found if is_named else ()))
            if not is_named and not entry.undo:
                continue
            for index, part in reversed([*enumerate(entry.parts)]):
                write = _write_of(position.log, stored_entry, entry, index)
                if isinstance(part, str):
                    is_known = is_known and past.undo(entry, index)
                elif is_known and (request in write.requests if request else past.found is not None):
                    rows += islice(past.changes(write, part, lacks), limit + 1 - len(rows))
    if table and past.values is None:
        find(read(connection), table, "not-found")
    return History(rows[:limit], since_ns, complete and len(rows) <= limit, list(lacks))


@contextmanager
def tables_at(connection: Connection, at: At, table: str = "") -> Iterator[tuple[Path, Write]]:
    """Copy the tables as they were at a moment, by undoing the entries after it.

    Yields the file and the last entry of the moment. Tables without a primary key are as they are now, and
    columns and tables that were added later are in it. Raises `TablesError`, SQLite's errors and OSError.
    """
    with _copied(connection) as (copy, path, position):
        moment = _find_moment(path, position, at, table)
        _undo(copy, path, position, moment[0].sequence)
        yield Path(copy.filename), _write_of(position.log, *moment, -1)


@contextmanager
def tables_before(connection: Connection, time_ns: int) -> Iterator[tuple[Connection, int, list[str]]]:
    """Copy the tables as they were before a time, as far as their journal goes.

    Yields the copy, the number of undone changes, and what is as it is now. Raises as `tables_at` does.
    """
    with _copied(connection) as (copy, path, position):
        entries = _entries(path, position)
        last = next((each.sequence for each, _ in entries if each.time_ns < time_ns), 0)
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
            yield copy, path, read_log_position(copy) if is_replica(copy) else CLOSED


def _find_moment(path: Path, position: LogPosition, at: At, table: str) -> tuple[JournalEntry, Entry]:
    """Return the last entry of a moment. Steps find entries that wrote a table. Raises `TablesError`."""
    sequence = _sequence(position, at.entry) if at.entry else 0
    later: tuple[JournalEntry, Entry] | None = None
    steps, oldest_ns = 1 - at.step, 0
    for moment in _entries(path, position):
        stored_entry, entry = moment
        oldest_ns = stored_entry.time_ns
        writes = bool(at.step and _written(entry, table))
        after = stored_entry.sequence > sequence if at.entry else stored_entry.time_ns > at.time_ns
        if after:
            later = moment if writes else later
        elif at.step > 0:
            break
        elif at.step == 0 or writes:
            steps -= 1
            if not steps:
                return moment
    if at.step > 0:
        if later is not None:
            return later
        raise TablesError(
            f"nothing was written to {table} after that", "It is as it is now.", code="conflict"
        )
    since = f"at {iso(oldest_ns / 1e9)}" if oldest_ns else "with the next write"
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
        at = iso(stored_entry.time_ns / 1e9)
        if time.monotonic() > end:
            raise TablesError(
                f"going back to that moment takes longer than {SECONDS:.0f} s; {at} is reached",
                "Name a later moment, or restore a backup: svc restore --at TIME.",
                code="timeout",
            )
        lacks |= dict.fromkeys(filter(None, entry.lacks.split("; ")))
        numbered |= entry.sequences.keys()
        if entry.kind == "gap" and not entry.lacks.endswith(NO_KEY):
            raise TablesError(f"the transaction at {at} has no record: {entry.lacks}", "Name a later moment.")
        exact = {index: sql for index, sql, is_exact in entry.undo if is_exact}
        for index, part in reversed([*enumerate(entry.parts)]):
            if isinstance(part, str) and index not in exact:
                if _LOSES_ROWS.match(words := _words(part)):
                    raise TablesError(
                        f"the tables before {at} had another schema: {' '.join(part.split())[:80]}",
                        "Name a later moment, or restore a backup: svc restore --at TIME.",
                    )
                if words.lower().startswith("create unique "):  # The rows before may not be unique.
                    for (index_name,) in rows(copy, _UNIQUE):
                        copy.execute(f"DROP INDEX {quoted(index_name)}")
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
    if last and stored_entry.sequence > last:
        raise TablesError("the history became shorter meanwhile", "Name a later moment.", code="conflict")
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
    return TablesError(f"what was written at {iso(write.time_ns / 1e9)} cannot be reverted: {reason}", hint)


def revert(connection: Connection, entry: str, *, plan: bool, skip: bool) -> Reverted:
    """Undo one entry in a transaction, or plan it. `skip` leaves out rows that have changed since.

    Raises `TablesError`.
    """
    catalog, position = read(connection), read_log_position(connection)
    sequence = _sequence(position, entry)
    found, is_known = None, True
    with closing(_Past(connection)) as past:
        for found in _entries(Path(connection.filename), position):
            if found[0].sequence <= sequence:
                break
            for index in reversed(range(len(found[1].parts))):
                is_known = is_known and past.undo(found[1], index)
        then = past.tables
    if found is None or found[0].sequence != sequence:
        raise TablesError(f"the history has no entry {entry}", "It may be too old.", code="not-found")
    write = _write_of(position.log, *found, 0)
    for name in sorted(each for each in _written(found[1]) if not reserved(each)):
        if not is_known or name not in then or not _fits(then[name], catalog.get(name)):
            raise _not_reverted(write, f"the schema of {name} has changed since")
    if found[1].lacks:
        raise _not_reverted(write, f"its record lacks {found[1].lacks}")
    for part in found[1].parts:
        if isinstance(part, str) and not _INTERNAL.match(part):
            back = f"--before-deployment {write.deployment}" if write.deployment else "--at TIME"
            hint = f"Undo it in a new migration, or restore a backup: svc restore {back}."
            raise _not_reverted(write, f"{' '.join(part.split())[:80]} changed the schema", hint)
    done: list[RowWrite] = []  # Like the conflicts, as many as a response has.
    conflicts: dict[tuple[str, str], RowWrite] = {}

    def on_conflict(reason: int, change: Any) -> int:
        if reason not in _REASONS:
            return int(apsw.SQLITE_CHANGESET_ABORT)
        table = catalog.get(change.name)
        current = _cells(table, change.conflict) if reason == apsw.SQLITE_CHANGESET_DATA else None
        each = _row_write(write, table, change)
        if len(conflicts) < MAX_WRITES:
            conflicts[each.table, str(each.key)] = replace(each, conflict=_REASONS[reason], current=current)
        return int(apsw.SQLITE_CHANGESET_OMIT)

    recorder = recorder_of(connection)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # What triggers wrote is in the entry.
    connection.execute("BEGIN IMMEDIATE")
    try:
        recorder.begin_rows()
        for part in reversed([each for each in found[1].parts if isinstance(each, bytes)]):
            inverse = apsw.Changeset.invert(part)
            changes = (each for each in apsw.Changeset.iter(inverse) if not reserved(each.name))
            shown = islice(changes, MAX_WRITES - len(done))
            done += [_row_write(write, catalog.get(each.name), each) for each in shown]
            apsw.Changeset.apply(
                inverse,
                connection,
                filter=lambda name: not reserved(name),
                conflict=on_conflict,
                flags=apsw.SQLITE_CHANGESETAPPLY_FKNOACTION,  # Those of the write are in the entry.
            )
        recorder.end_rows()
        applied = not plan and (skip or not conflicts)
        connection.execute("COMMIT" if applied else "ROLLBACK")
    except (apsw.AbortError, apsw.ConstraintError) as error:
        raise _not_reverted(write, "rows would refer to missing rows") from error
    except UnicodeDecodeError as error:
        raise _not_reverted(write, "it has text that is not UTF-8") from error
    finally:
        recorder.end_rows()
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    keys = {(each.table, str(each.key)) for each in done}
    rows = [each for key, each in conflicts.items() if key not in keys]
    rows += [conflicts.get((each.table, str(each.key)), each) for each in done]
    return Reverted(rows[:MAX_WRITES], applied)
