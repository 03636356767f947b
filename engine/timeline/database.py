"""SQLite file of the timeline: opening, schema, transactions and error mapping.

Several processes may write and read concurrently: with a write-ahead log, readers continue while a batch is
written, and a killed process loses only unwritten records. Batches are not synced to disk, so a power failure
may lose the last ones.
"""

import time
from pathlib import Path

from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.files.sqlite_file import SqliteFile
from engine.timeline.record import Origin

TIMELINE_FILE = "timeline.db"
WAL_BYTES = 16 << 20
_TYPES = {
    "time_ns": "integer",
    "kind": "text",
    "level": "integer",
    "resource": "text",
    "request_id": "text",
    "body": "text",
    "trace_id": "text",
    "span_id": "text",
    "attributes": "text",
    "parent": "text",
    "root": "integer",
    "method": "text",
    "target": "text",
    "status": "integer",
    "code": "text",
    "wall_ns": "integer",
    "compute_ns": "integer",
    "peak_memory": "integer",
    "bytes_in": "integer",
    "bytes_out": "integer",
    **dict.fromkeys(Origin._fields, "text not null default ''"),
}
FIELDS = tuple(_TYPES)
"""Columns besides `cursor` and `written_ms`; those from `parent` to `bytes_out` belong to requests."""

BOUNDS = "select (select min(cursor) from record), (select max(cursor) from record)"
"""The first and last cursor. Two queries: a single one for both would scan the table."""

_SCHEMA = f"""
create table if not exists record (
  cursor integer primary key,
  written_ms integer not null,
  {", ".join(f"{name} {sql_type}" for name, sql_type in _TYPES.items())}
) strict;
create index if not exists record_request on record (request_id) where request_id <> '';
create table if not exists origin (only integer primary key check (only = 1), cursor integer not null) strict;
"""
_COPIES = """
alter table record add column node text not null default '';
alter table record add column node_cursor integer;
alter table record add column node_ms integer;
create index record_node on record (node, node_cursor) where node <> '';
alter table origin add column node text not null default '';
create table peer (node text primary key, cursor integer not null) strict;
"""
"""Additions for a fleet. A record of another node has its `node`, and its cursor and `written_ms` there.
`origin` has the name of this node, and `peer` the last copied cursor of each other one."""
_EXCHANGES = """
create table if not exists exchange (
  request_id text primary key,
  cursor integer not null,
  weight integer not null,
  head text not null,
  request blob not null,
  response blob not null
) strict;
create index if not exists exchange_age on exchange (cursor, weight);
"""
"""Recordings: `cursor` is that of a record written with it, `weight` the approximate size in bytes."""


_METRICS = """
create table if not exists metric (
  resource text not null,
  name text not null,
  kind text not null,
  attributes text not null,
  unit text not null,
  description text not null,
  since_ns integer not null,
  time_ns integer not null,
  value real not null,
  bounds text,
  counts text,
  node text not null default '',
  primary key (resource, name, kind, attributes, node)
) strict, without rowid;
"""
"""Series of guests' metrics. `attributes`, `bounds` and `counts` are JSON; `node` is as in a record."""
_OLD_METRICS = f"""
alter table metric rename to old_metric;
{_METRICS}
insert into metric select *, '' from old_metric;
drop table old_metric;
"""
_NAMES = "select name from pragma_table_info('record') union select name from sqlite_schema"
_ADDED = {"exchange", "metric", "node", *Origin._fields}
"""Tables, and columns of `record`, that the file of an older svc may lack."""


class TimelineError(SvcError):
    """The timeline's file is currently unusable."""


class CorruptTimeline(TimelineError):
    """The file is not a database, or is corrupt."""


class NewerTimeline(TimelineError):
    """The file was written by a newer svc and stays unchanged."""


def timeline_path(root: Path) -> Path:
    return root / DATA_DIR / TIMELINE_FILE


class TimelineDatabase(SqliteFile):
    """One connection to a timeline. Only its owner may read it: it has request bodies."""

    title, located = "the timeline", "the timeline in {}"
    actions = "read the timeline", "write the timeline"
    version = 3
    error_type = TimelineError
    corrupt_type = CorruptTimeline
    newer_type = NewerTimeline

    def _prepare(self, write: bool) -> None:
        self.empty = not self.run("pragma user_version")[0][0]
        if write:
            self.run("pragma journal_mode = wal")
            self.run("pragma synchronous = normal")
            self.run(f"pragma journal_size_limit = {WAL_BYTES}")
            if self.empty:
                # Cursors start at the time in µs, so they exceed all those of an older file.
                with self.change():
                    self.run(_SCHEMA)
                    cursor = time.time_ns() // 1000
                    self.run("insert or ignore into origin (only, cursor) values (1, ?)", (cursor,))
            self.empty = False
        if not self.empty and self._missing():
            with self.change():
                self._upgrade()
        if not write:
            self.run("pragma query_only = on")

    def _missing(self) -> set[str]:
        return _ADDED - {name for (name,) in self.run(_NAMES)}

    def _upgrade(self) -> None:
        missing = self._missing()  # None if another process was first.
        self.run(_EXCHANGES)
        self.run(_METRICS)
        if "node" in missing:
            self.run(_COPIES)
        if not self.run("select 1 from pragma_table_info('metric') where name = 'node'"):
            self.run(_OLD_METRICS)
        for name in missing & set(Origin._fields):
            self.run(f"alter table record add column {name} {_TYPES[name]}")
        self.run(f"pragma user_version = {self.version}")

    def _interrupted(self) -> SvcError:
        hint = "Narrow the range with `since` and `until`, or search for a shorter text."
        return TimelineError("the records cannot be read in time", hint, code="timeout")
