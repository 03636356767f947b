"""Errors of replicated tables."""

import errno

from doors.tables.sqlite.connections import DISPLAY_PATH, apsw
from engine.errors import SvcError


class ReplicationError(SvcError):
    """The tables cannot be read or changed now. Codes are those of the Door's problems."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint, code=code)


class Conflict(ReplicationError):
    """Another node writes to the tables; the transaction was not stored and can be repeated there."""

    def __init__(self) -> None:
        super().__init__(
            "busy", "another node of the fleet writes to the tables; nothing was changed", "Retry."
        )


class CannotApply(Exception):
    """An entry of the log does not fit the local copy."""


STORAGE_ERRORS = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ProtocolError,
    apsw.InterruptError,
    apsw.CorruptError,
    apsw.NotADBError,
)
"""Errors that concern the file or the machine, and not the entry that is applied."""


def storage_failure(error: Exception) -> str:
    """Return the cause of an error of svc, SQLite or the operating system, and its remedy."""
    match error:
        case SvcError():
            return error.message
        case CannotApply():
            return str(error)
        case apsw.FullError() | OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "the disk of this node is full: free space on it"
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.ReadOnlyError():
            return f"this node cannot open or write {DISPLAY_PATH}: check its permissions"
        case OSError():
            return f"this node cannot write to the folder of the tables: {error.strerror}"
        case apsw.IOError():
            return f"this node cannot read or write {DISPLAY_PATH}: check its disk ({error})"
    return f"SQLite: {error}"
