"""Validation of the names of tables, columns and indexes."""

import unicodedata

from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.errors import TablesError, fold

MAX_NAME_LENGTH = 120
ROW_NAMES = ("rowid", "oid", "_rowid_")
"""SQLite's names of the rowid."""
_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_MARKS = "\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that change the direction of text. Joiners, which some scripts need, are allowed."""


def check_name(name: str, subject: str) -> None:
    """Validate a name. Raises `TablesError` with a message that begins with `what`, such as "a table"."""
    reason = _invalid_reason(name)
    if reason:
        raise TablesError(
            f"{subject} cannot be named {name!r}: {reason}",
            "Use letters of any script; spaces inside are allowed.",
        )


def check_column_name(name: str) -> None:
    """Validate the name of a column. Raises `TablesError`."""
    check_name(name, "a column")
    if fold(name) in ROW_NAMES:
        raise TablesError(
            f"a column cannot be named {name!r}: SQLite uses this name for the rowid",
            "Choose another name, such as id.",
        )


def _invalid_reason(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it is longer than {MAX_NAME_LENGTH} characters"
    if name != name.strip():
        return "it begins or ends with a space"
    if any(unicodedata.category(letter) in _INVISIBLE or letter in _DIRECTION_MARKS for letter in name):
        return "it has an invisible character"
    if reserved(name):
        return "names that begin with sqlite_ or _svc are reserved"
    return ""
