"""The SQLite authorizer for an owner's SQL: it may read everything, and write rows if the request allows it.

Connection settings, other files and transactions are refused with a hint at the alternative.
"""

from doors.tables.guest.authorizer import FILES, TRANSACTIONS, WRITES, GuestAuthorizer
from doors.tables.guest.problem import GuestProblem
from doors.tables.sqlite.connections import apsw
from engine.files.sql_functions import DENIED_FUNCTIONS

_READING_PRAGMAS = """
    collation_list compile_options data_version foreign_key_check foreign_key_list freelist_count
    function_list index_info index_list index_xinfo integrity_check module_list page_count page_size
    pragma_list quick_check table_info table_list table_xinfo
"""
_READ_ONLY_PRAGMAS = frozenset(_READING_PRAGMAS.split())
"""Pragmas that only read, with any argument."""
_READS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE})


class OwnerAuthorizer(GuestAuthorizer):
    """The authorizer of one statement."""

    __slots__ = ()

    def _check(self, action: int, first: str, second: str) -> GuestProblem | None:
        if action in _READS:
            return None
        if action == apsw.SQLITE_FUNCTION:
            return self._call(second.lower())
        if action == apsw.SQLITE_PRAGMA:
            return None if first.lower() in _READ_ONLY_PRAGMAS else _setting(first)
        if action in TRANSACTIONS:
            return GuestProblem(
                "not-allowed",
                "each statement is already a transaction",
                "Put changes that belong together into one statement or one migration (`tables/*.sql`).",
            )
        if action in FILES:
            return GuestProblem(
                "not-allowed",
                "other files cannot be attached",
                "Use `svc tables import` to copy the tables of another file.",
            )
        if action in WRITES and not first.lower().startswith("sqlite_"):
            return self._row(first)
        return kind_refused()

    def _call(self, name: str) -> GuestProblem | None:
        self.work.add(name)
        return (
            GuestProblem("not-allowed", f"{name}() cannot be called here")
            if name in DENIED_FUNCTIONS
            else None
        )

    def _row(self, table: str) -> GuestProblem | None:
        if not self.writes:
            return reads_only()
        if table.lower().startswith("_svc"):
            return GuestProblem(
                "not-allowed", f"{table} is svc's own", "`svc tables alter T note …` writes notes."
            )
        return None


def reads_only() -> GuestProblem:
    """Return the problem of a statement that writes in a request that only reads."""
    return GuestProblem(
        "writes-in-query",
        "the statement writes, but the request only reads",
        'Pass `--write` to `svc tables query`, "write": true to the API, or `--allow-writes` to `svc mcp`.',
    )


def kind_refused() -> GuestProblem:
    """Return the problem of a kind of statement that cannot be run."""
    return GuestProblem(
        "not-allowed",
        "this kind of statement cannot be run here",
        "Use `svc tables create`, `alter`, `index` and `drop` to change the schema.",
    )


def _setting(name: str) -> GuestProblem:
    return GuestProblem(
        "not-allowed",
        f"PRAGMA {name} cannot be used here",
        f"svc manages the settings of the database. Available: {', '.join(sorted(_READ_ONLY_PRAGMAS))}.",
    )
