"""Schema introspection for guests: `sqlite_schema` without svc's own tables, and the pragmas that read it.

The authorizer never allows the real `sqlite_schema`. Its name in a statement is replaced by that of a virtual
table, which has the same columns and as many letters, so that positions in the SQL stay valid.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from doors.tables.sqlite.connections import Connection

SCHEMA_TABLE = "_svc_catalog_"
"""The virtual table that stands for `sqlite_schema`."""
PRAGMAS = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)
"""Pragmas that describe the table or index that is their argument. Each is also a table `pragma_…`."""
_ROWS = """
    SELECT type, name, tbl_name, rootpage, sql FROM main.sqlite_schema
    WHERE name NOT LIKE '\\_svc%' ESCAPE '\\' AND tbl_name NOT LIKE '\\_svc%' ESCAPE '\\'
"""
_MENTION = re.compile("sqlite_(?:schema|master)", re.IGNORECASE)
_NAME = re.compile(
    r"""
    '[^']*+(?:''[^']*+)*+(?:'|\Z) | --[^\n]*+ | /\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)
  | "[^"]*+(?:""[^"]*+)*+(?:"|\Z) | `[^`]*+(?:``[^`]*+)*+(?:`|\Z) | \[[^\]]*+(?:\]|\Z)
  | [^\x00-\x23\x25-\x2f\x3a-\x40\[-^`{-\x7f]++
    """,
    re.VERBOSE,
)
"""Strings and comments, quoted names, and words."""


def redirect(sql: str) -> str:
    """Return SQL that reads the virtual table instead of `sqlite_schema`."""
    return _NAME.sub(_redirected, sql) if _MENTION.search(sql) else sql


def _redirected(match: re.Match[str]) -> str:
    text = match[0]
    name = text[1:-1] if text[0] in '"`[' else text
    return text.replace(name, SCHEMA_TABLE) if _MENTION.fullmatch(name) else text


def register(connection: Connection, read: Callable[[str], list[Any]]) -> None:
    """Register the virtual table. `read` returns the rows of internal SQL."""
    columns = "CREATE TABLE x(type TEXT, name TEXT, tbl_name TEXT, rootpage INT, sql TEXT)"
    table = SimpleNamespace(
        BestIndexObject=lambda _: True,  # The table is always read from its start.
        Open=lambda: _Cursor(read),
        Disconnect=lambda: None,
    )
    module: Any = SimpleNamespace(Connect=lambda *_: (columns, table))
    connection.create_module(
        SCHEMA_TABLE, module, use_bestindex_object=True, eponymous_only=True, read_only=True
    )


class _Cursor:
    """A cursor of the virtual table, as apsw calls it."""

    def __init__(self, read: Callable[[str], list[Any]]) -> None:
        self._read = read

    def Filter(self, *_: object) -> None:
        self._rows, self._index = self._read(_ROWS), 0

    def Eof(self) -> bool:
        return self._index >= len(self._rows)

    def Column(self, number: int) -> Any:
        """Return a value of the row; -1 is its rowid."""
        return self._rows[self._index][number] if number >= 0 else self._index

    def Rowid(self) -> int:
        return self._index

    def Next(self) -> None:
        self._index += 1

    def Close(self) -> None:
        self._rows = []
