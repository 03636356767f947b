"""Which names tables, columns and indexes may have."""

import unicodedata

from doors.tables.sqlite.catalog import reserved
from doors.tables.sqlite.errors import TablesError, fold

MAX_NAME_LENGTH = 120
ROW_NAMES = ("rowid", "oid", "_rowid_")
"""What SQLite calls the number of a row."""
_INVISIBLE = ("Cc", "Cs", "Zl", "Zp")
_DIRECTION_MARKS = "\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that change how the text around them is shown; joiners, which scripts need, are not among them."""


def check_name(name: str, what: str) -> None:
    """Hold a name to the rules; `what` it is a name of begins the message. Raises `TablesError`."""
    wrong = _wrong(name)
    if wrong:
        raise TablesError(
            f"{what} can not be named {name!r}: {wrong}",
            "A name is a word of any script; blanks within it are allowed.",
        )


def check_column_name(name: str) -> None:
    """Hold the name of a column to the rules."""
    check_name(name, "a column")
    if fold(name) in ROW_NAMES:
        raise TablesError(
            f"a column can not be named {name!r}: SQLite calls the number of a row so",
            "Choose another name, such as id.",
        )


def _wrong(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"it is longer than {MAX_NAME_LENGTH} characters"
    if name != name.strip():
        return "it begins or ends with a blank"
    if any(unicodedata.category(letter) in _INVISIBLE or letter in _DIRECTION_MARKS for letter in name):
        return "it has a character that can not be seen"
    if reserved(name):
        return "names that begin with sqlite_ or _svc are reserved"
    return ""
