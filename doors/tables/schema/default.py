"""Defaults: from what people write to what `create table` holds."""

from doors.tables.sqlite.catalog import NOW, ColumnType
from doors.tables.sqlite.errors import Connection, TablesError, fold, literal, scalar
from doors.tables.sqlite.tokens import tokens
from doors.tables.types.convert import fits

_WORDS = ("TRUE", "FALSE", "NULL")


def default_sql(connection: Connection, column: str, type: ColumnType, default: str) -> str:
    """Return the clause for a default: `now()` or one literal that fits the column. Raises `TablesError`."""
    parts = list(tokens(default))
    if [fold(part.text) for part in parts] == ["now", "(", ")"]:
        if type not in ("timestamp", "text"):
            raise TablesError(
                f"column {column} is {type} and can not default to now()", "Make it a timestamp."
            )
        return f"DEFAULT ({NOW})"
    signed = parts[1:] if parts and parts[0].text in ("-", "+") else parts
    single = len(signed) == 1 and (
        signed[0].kind == "number"
        or (len(parts) == 1 and (parts[0].kind == "string" or parts[0].is_word(*_WORDS)))
    )
    if not single:
        raise TablesError(
            f"the default of column {column} is neither now() nor one value: {default}",
            "Write a text in single quotes ('open'), a number (0), true, false or null.",
        )
    value = scalar(connection, f"SELECT {default}")
    try:
        return f"DEFAULT {literal(fits(value, type))}"
    except ValueError as error:
        raise TablesError(
            f"the default of column {column} does not fit its type: {default} {error}",
            f"Write a value of type {type}, or take the default away.",
        ) from None
