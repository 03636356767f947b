"""SQL functions whose time is proportional to the size of their arguments.

SQLite does not interrupt a function. The time of its own ones grows with the product of two sizes: `instr` of
a megabyte takes seconds. Those here return the same values, because indexes and generated columns may contain
them, and other programs read the files. They refuse text that is not UTF-8.

A call holds Python's interpreter lock, and the next one takes it again before a waiting thread has woken up.
So a thread that calls them sleeps a little after each 0.3 ms.
"""

import re
from asyncio import get_running_loop
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any

import apsw

from engine.files.statement_memory import COLLECTING_FUNCTIONS

DENIED_FUNCTIONS = frozenset({"fts3_tokenizer", "load_extension"})
"""Functions that change the process."""
MAX_PATTERN_BYTES = 500
"""Maximum bytes of a pattern of `like` and `glob`."""
MAX_INDENT = 100
"""Maximum characters of an indentation of `json_pretty`."""
_MAX_WORK = 64 << 20
"""Bytes that functions take about a second for."""
_CHARACTERS_OF_A_CALL = 800
"""Characters of SQL that take as long as a call of a function: conversions and comparisons."""
_WORK = {"like": 8, "glob": 48, "highlight": 64, "snippet": 64} | dict.fromkeys(
    ("json_patch", "jsonb_patch", "geopoly_overlap", "geopoly_within"), 512
)
"""Work of a call, compared with others. The time of the last ones grows with the product of two sizes."""
_PATHS = ("extract", "insert", "replace", "set", "remove", "array_insert", "array", "object")
_BY_ARGUMENT = frozenset(
    {"concat", "concat_ws", *(f"{kind}_{use}" for kind in ("json", "jsonb") for use in _PATHS)}
)
"""Functions whose time grows with the number of their arguments, which the authorizer does not know."""
_MANY_ARGUMENTS = 32
_HOLD_SECONDS, _SLEEP_SECONDS = 0.0001, 0.00001
_TURNS = 4
"""A statement that collects values has this part of the work, so that its turns end soon."""
Value = int | float | str | bytes | None

_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that do not begin a character."""
_HEX_PAIRS = re.compile("(?:[0-9A-Fa-f]{2})+")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def register_functions(connection: apsw.Connection) -> None:
    """Replace SQLite's functions. Call it for each connection that evaluates SQL or schemas of others."""
    sleep_at = 0.0

    def sleeping(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Value) -> Any:
            nonlocal sleep_at
            if monotonic() > sleep_at:
                try:
                    get_running_loop()  # There, statements are short.
                except RuntimeError:
                    sleep(_SLEEP_SECONDS)
                sleep_at = monotonic() + _HOLD_SECONDS
            return function(*values)

        return call

    for name, count, function in _FUNCTIONS:
        connection.create_scalar_function(
            name, sleeping(function), count, deterministic=True, flags=apsw.SQLITE_INNOCUOUS
        )


class Work:
    """The work of the calls of a statement, as its authorizer sees them."""

    def __init__(self) -> None:
        self.calls = 0
        self.collects = False
        """Whether the statement calls a function that collects values in memory."""
        self._by_argument = False

    def add(self, function: str) -> None:
        """Count a call."""
        self.calls += _WORK.get(function, 1)
        self.collects = self.collects or function in COLLECTING_FUNCTIONS
        self._by_argument = self._by_argument or function in _BY_ARGUMENT

    def max_value(self, sql: str) -> int:
        """Return the maximum bytes of a value in the statement.

        SQLite does not interrupt a statement between two jumps. With such values, that is about a second.
        """
        arguments = sql.count(",") // 2 if self._by_argument else 0
        work = max(1, self.calls + arguments + len(sql) // _CHARACTERS_OF_A_CALL)
        return _MAX_WORK // (work * _TURNS if self.collects else work)


def lower_limit(connection: apsw.Connection, function: str) -> None:
    """Lower the maximum bytes of a value for a further call in the statement that is compiled."""
    work = _MANY_ARGUMENTS if function in _BY_ARGUMENT else _WORK.get(function, 1)
    limit = connection.limit(apsw.SQLITE_LIMIT_LENGTH)
    if function in COLLECTING_FUNCTIONS:
        limit //= _TURNS
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_WORK // (_MAX_WORK // limit + work))


def _text(value: Value) -> Any:
    """Return a value as SQLite converts it to text, or None."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return apsw.Connection(":memory:").execute("select cast(? as text)", (value,)).get
    return value if value is None else str(value)


def _of_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the SQL function that calls `function` with texts. It is null if an argument is."""

    def call(*values: Value) -> Any:
        return None if None in values else function(*map(_text, values))

    return call


def _instr(text: Value, part: Value) -> int | None:
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    if isinstance(text, bytes) or isinstance(part, bytes):
        return _instr_mixed(
            *(each if isinstance(each, bytes) else _text(each).encode() for each in (text, part))
        )
    return int(_text(text).find(_text(part)) + 1)


def _instr_mixed(text: bytes, part: bytes) -> int:
    """Return the position of a part, in characters. It begins with a character, or at the start."""
    if text.startswith(part):
        return 1
    at = -1 if part[0] in _CONTINUATIONS else text.find(part)
    return at + 1 and 1 + len(text[1 : at + 1].translate(None, _CONTINUATIONS))


def _replace(text: Value, part: Value, other: Value) -> Any:
    if text is None or part is None:
        return None
    if _text(part)[:1] in ("", "\0"):
        return _text(text)
    return None if other is None else _text(text).replace(_text(part), _text(other))


def _trim(text: str, characters: str, *, left: bool, right: bool) -> str:
    trimmed = frozenset(characters.partition("\0")[0])
    first, last = 0, len(text)
    while left and first < last and text[first] in trimmed:
        first += 1
    while right and first < last and text[last - 1] in trimmed:
        last -= 1
    return text[first:last]


def _unhex(text: str, ignored: str) -> bytes | None:
    text = text.partition("\0")[0]
    others = set(_HEX_PAIRS.sub("", text))
    if others & _HEX_DIGITS or others - set(ignored):
        return None
    return bytes.fromhex("".join(_HEX_PAIRS.findall(text)))


def _json_pretty(document: Value, indent: Value) -> Any:
    if len(_text(indent) or "") > MAX_INDENT:
        raise apsw.TooBigError(f"an indentation has more than {MAX_INDENT} characters")
    return apsw.Connection(":memory:").execute("select json_pretty(?, ?)", (document, indent)).get


_FUNCTIONS: tuple[tuple[str, int, Callable[..., Any]], ...] = (
    ("instr", 2, _instr),
    ("replace", 3, _replace),
    ("trim", 2, _of_texts(partial(_trim, left=True, right=True))),
    ("ltrim", 2, _of_texts(partial(_trim, left=True, right=False))),
    ("rtrim", 2, _of_texts(partial(_trim, left=False, right=True))),
    ("unhex", 2, _of_texts(_unhex)),
    ("json_pretty", 2, _json_pretty),
)
