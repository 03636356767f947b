"""The DEFAULT clause of a column."""

from doors.tables.sqlite.errors import Connection, TablesError, fold, literal, scalar
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.convert import coerce
from doors.tables.types.registry import TYPES, TypeName

_WORDS = ("TRUE", "FALSE", "NULL")


def default_sql(connection: Connection, column: str, type: TypeName, default: str) -> str:
    """Return the clause for a default: `now()`, or one literal of the type. Raises `TablesError`."""
    parts = list(tokens(default))
    if [fold(part.text) for part in parts] == ["now", "(", ")"]:
        if not TYPES[type].now_sql:
            names = ", ".join(each.name for each in TYPES.values() if each.now_sql)
            raise TablesError(
                f"column {column} of type {type} cannot default to now()", f"Types with now(): {names}."
            )
        return f"DEFAULT ({TYPES[type].now_sql})"
    signed = parts[1:] if parts and parts[0].text in ("-", "+") else parts
    single = len(signed) == 1 and (
        signed[0].kind == "number"
        or (len(parts) == 1 and (parts[0].kind == "string" or parts[0].is_word(*_WORDS)))
    )
    if not single:
        raise TablesError(
            f"the default of column {column} is neither now() nor one value: {default}",
            "Write text in single quotes ('open'), a number (0), true, false or null.",
        )
    value = scalar(connection, f"SELECT {default}")
    try:
        return f"DEFAULT {literal(coerce(value, type))}"
    except ValueError as error:
        raise TablesError(
            f"the default of column {column} does not fit its type: {default} {error}",
            f"Write a value of type {type}, or drop the default.",
        ) from None
