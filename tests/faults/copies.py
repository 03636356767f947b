"""Comparison of the copies of stopped nodes, read from their files without svc."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

POSITION = "_svc_replica"
"""The table with the position of a copy, which may differ."""


def content_of(path: Path, scratch: Path) -> dict[str, Any]:
    """Return the schema and the rows of all tables, with their rowids. Raises SQLite's errors.

    Checks the file, and each full-text index against its content.
    """
    shutil.copytree(
        path.parent, scratch, ignore=lambda _, names: [n for n in names if not n.startswith(path.name)]
    )
    with closing(apsw.Connection(str(scratch / path.name))) as connection:
        assert list(connection.execute("PRAGMA integrity_check")) == [("ok",)]
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_list WHERE type = 'virtual'"
        ).fetchall():
            connection.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
        schema = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2"
        ).fetchall()
        tables = connection.execute(
            "SELECT name, iif(wr OR name LIKE 'sqlite\\_%' ESCAPE '\\', '*', '_rowid_, *')"
            " FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')"
        ).fetchall()
        rows = {
            name: sorted(connection.execute(f'SELECT {columns} FROM "{name}"').fetchall(), key=repr)
            for name, columns in tables
            if name not in (POSITION, "sqlite_schema", "sqlite_stat4")
        }
        return {"schema": [row for row in schema if row[2] != POSITION], **rows}


def differing(paths: Sequence[Path], scratch: Path) -> list[str]:
    """Return the names of what differs between copies: tables, or the schema."""
    first, *others = [content_of(path, scratch / str(number)) for number, path in enumerate(paths)]
    return sorted(
        {
            name
            for other in others
            for name in first.keys() | other.keys()
            if first.get(name) != other.get(name)
        }
    )
