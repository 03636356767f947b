"""Notes on tables and columns, stored in a table of svc's own that the first note creates."""

from doors.tables.sqlite.catalog import NOTES, find, read
from doors.tables.sqlite.errors import Connection, TablesError, rows, scalar

CREATE_NOTES = f"""CREATE TABLE IF NOT EXISTS {NOTES} (
  table_name TEXT NOT NULL,
  column_name TEXT NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (table_name, column_name)
) STRICT, WITHOUT ROWID"""
MAX_NOTE_LENGTH = 10_000
INTERNAL_TABLES = (NOTES, "_svc_migrations")
"""Tables of svc in the database of a project."""


def write(connection: Connection, table: str, column: str, note: str) -> None:
    """Set a note on a column, or on the table if `column` is empty. An empty note deletes it."""
    if note:
        if not _has_notes(connection):
            connection.execute(CREATE_NOTES)
        connection.execute(f"INSERT OR REPLACE INTO {NOTES} VALUES (?, ?, ?)", (table, column, note))
    elif _has_notes(connection):
        condition = "table_name = ? AND column_name = ?"
        connection.execute(f"DELETE FROM {NOTES} WHERE {condition}", (table, column))


def rename_table(connection: Connection, old: str, new: str) -> None:
    """Move the notes of a table to its new name."""
    if _has_notes(connection):
        connection.execute(
            f"UPDATE OR REPLACE {NOTES} SET table_name = ? WHERE table_name = ? COLLATE NOCASE", (new, old)
        )


def rename_column(connection: Connection, table: str, old: str, new: str) -> None:
    """Move the note of a column to its new name."""
    if _has_notes(connection):
        connection.execute(
            f"UPDATE OR REPLACE {NOTES} SET column_name = ?"
            " WHERE table_name = ? COLLATE NOCASE AND column_name = ? COLLATE NOCASE",
            (new, table, old),
        )


def delete_orphans(connection: Connection) -> None:
    """Delete the notes of dropped tables and columns."""
    if not _has_notes(connection):
        return
    tables = read(connection)
    for table, column in rows(connection, f"SELECT table_name, column_name FROM {NOTES}"):
        try:
            existing = find(tables, table)
            if column:
                existing.column(column)
        except TablesError:
            write(connection, table, column, "")


def _has_notes(connection: Connection) -> bool:
    sql = scalar(connection, "SELECT sql FROM sqlite_schema WHERE name = ?", NOTES)
    if sql is not None and "COLLATE" in sql:  # An older svc made it, with a key that no fleet replicates.
        connection.execute(CREATE_NOTES.replace(NOTES, "_svc_new"))
        connection.execute(f"INSERT INTO _svc_new SELECT * FROM {NOTES}")
        connection.execute(f"DROP TABLE {NOTES}")
        connection.execute(f"ALTER TABLE _svc_new RENAME TO {NOTES}")
    return sql is not None
