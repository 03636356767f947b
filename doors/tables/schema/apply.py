"""Execution of schema changes, in one transaction that preserves every row."""

from collections.abc import Sequence
from typing import assert_never

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
from doors.tables.schema.references import find_broken
from doors.tables.sqlite.errors import Connection, TablesError, transaction


def apply(connection: Connection, changes: Sequence[Change]) -> None:
    """Apply schema changes in order, all or none. Raises `TablesError`.

    The connection is unrestricted and not in a transaction.
    """
    with transaction(connection, "the tables were not changed"):
        was_valid = not find_broken(connection)
        for change in changes:
            apply_one(connection, change)
        if was_valid and (broken := find_broken(connection)):
            raise TablesError(
                f"something needs what the change removes: {broken}",
                "Drop that view, trigger or index in a migration first, and create it again after it.",
            )


def apply_one(connection: Connection, change: Change) -> None:
    """Apply one change inside a transaction."""
    match change:
        case CreateTable():
            tables.create(connection, change)
        case RenameTable():
            tables.rename(connection, change)
        case DropTable():
            tables.drop(connection, change)
        case AddColumn():
            columns.add(connection, change)
        case RenameColumn():
            columns.rename(connection, change)
        case RetypeColumn():
            columns.retype(connection, change)
        case DropColumn():
            columns.drop(connection, change)
        case SetNullable():
            columns.set_nullable(connection, change)
        case SetDefault():
            columns.set_default(connection, change)
        case SetUnique():
            constraints.set_unique(connection, change)
        case SetPrimaryKey():
            constraints.set_primary_key(connection, change)
        case SetNote():
            tables.set_note(connection, change)
        case CreateIndex():
            constraints.create_index(connection, change)
        case DropIndex():
            constraints.drop_index(connection, change)
        case _:
            assert_never(change)
    notes.delete_orphans(connection)
