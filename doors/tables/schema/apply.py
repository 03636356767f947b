"""Execution of schema changes, in one transaction that preserves every row."""

from collections.abc import Callable, Sequence
from typing import Any

from doors.tables.schema import columns, constraints, notes, tables
from doors.tables.schema.change import (
    AddColumn,
    Change,
    CreateIndex,
    CreateTable,
    DropColumn,
    DropIndex,
    DropTable,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SetDefault,
    SetNote,
    SetNullable,
    SetPrimaryKey,
    SetUnique,
)
from doors.tables.schema.references import unbroken
from doors.tables.sqlite.errors import Connection, transaction

_FUNCTIONS: dict[type[Change], Callable[[Connection, Any], None]] = {
    CreateTable: tables.create,
    RenameTable: tables.rename,
    DropTable: tables.drop,
    AddColumn: columns.add,
    RenameColumn: columns.rename,
    RetypeColumn: columns.retype,
    DropColumn: columns.drop,
    SetNullable: columns.set_nullable,
    SetDefault: columns.set_default,
    SetUnique: constraints.set_unique,
    SetPrimaryKey: constraints.set_primary_key,
    SetNote: tables.set_note,
    CreateIndex: constraints.create_index,
    DropIndex: constraints.drop_index,
}


def apply(connection: Connection, changes: Sequence[Change]) -> None:
    """Apply schema changes in order, all or none. Raises `TablesError`.

    The connection is unrestricted and not in a transaction.
    """
    subject = "something needs what the change removes"
    hint = "Drop that view, trigger or index in a migration first, and create it again after it."
    with transaction(connection, "the tables were not changed"), unbroken(connection, subject, hint):
        for change in changes:
            apply_one(connection, change)


def apply_one(connection: Connection, change: Change) -> None:
    """Apply one change inside a transaction."""
    _FUNCTIONS[type(change)](connection, change)
    notes.delete_orphans(connection)
