"""Execution of schema changes, in one transaction that preserves every row."""

from collections.abc import Callable, Sequence
from typing import Any

from doors.tables.schema import change as kinds
from doors.tables.schema import columns, constraints, notes, tables
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.errors import Connection, transaction

_FUNCTIONS: dict[type[kinds.Change], Callable[[Connection, Any], None]] = {
    kinds.CreateTable: tables.create,
    kinds.RenameTable: tables.rename,
    kinds.DropTable: tables.drop,
    kinds.AddColumn: columns.add,
    kinds.RenameColumn: columns.rename,
    kinds.RetypeColumn: columns.retype,
    kinds.DropColumn: columns.drop,
    kinds.SetNullable: columns.set_nullable,
    kinds.SetDefault: columns.set_default,
    kinds.SetUnique: constraints.set_unique,
    kinds.SetPrimaryKey: constraints.set_primary_key,
    kinds.SetNote: tables.set_note,
    kinds.CreateIndex: constraints.create_index,
    kinds.DropIndex: constraints.drop_index,
}


def apply(connection: Connection, changes: Sequence[kinds.Change]) -> None:
    """Apply schema changes in order, all or none. Raises `TablesError`.

    The connection is unrestricted and not in a transaction.
    """
    subject = "something needs what the change removes"
    hint = "Drop that view, trigger or index in a migration first, and create it again after it."
    with transaction(connection, "the tables were not changed"), unbroken(connection, subject, hint):
        for change in changes:
            apply_one(connection, change)


def apply_one(connection: Connection, change: kinds.Change) -> None:
    """Apply one change inside a transaction."""
    _FUNCTIONS[type(change)](connection, change)
    notes.delete_orphans(connection)
