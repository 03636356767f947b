"""The syntax of columns and schema changes, types and file formats, for `svc tables` and the Console.

    id integer primary key, mail text not null unique, joined timestamp default now()
    add age integer, rename mail to email, alter age set default 18, drop city

The words are those of SQL's CREATE TABLE and ALTER TABLE. Commas or line ends separate columns and changes.
A name with spaces goes in double quotes, a text with spaces or commas in single quotes.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, Literal

from svc_tui.client import InvalidUsage, SvcError
from svc_tui.terminal.units import local_time

Form = Literal["int", "float", "bool", "string", "format", "document", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeInfo:
    """A column type, as `GET /tables/types` describes it."""

    name: str
    form: Form
    pattern: str = ""
    example: str = ""
    accepts_now: bool = False
    true_words: Sequence[str] = ()
    false_words: Sequence[str] = ()
    width: int = 0
    min_width: int = 0

    @property
    def align_right(self) -> bool:
        return self.form in ("int", "float")

    @property
    def is_long(self) -> bool:
        """True if values may be long texts of several lines."""
        return self.form in ("string", "document")

    @property
    def is_quoted(self) -> bool:
        """True if SQL writes values in single quotes."""
        return self.form in ("string", "format", "document")


COMPUTED = TypeInfo(name="", form="string", width=16)
"""The type of a computed column of a query, or of a type that this version does not have."""


class ColumnTypes:
    """The column types of a control API."""

    def __init__(self, types: Iterable[TypeInfo] = ()) -> None:
        self._types = {type.name: type for type in types}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "ColumnTypes":
        """Return the types of an answer to `GET /tables/types`."""
        return cls(TypeInfo(**fields) for fields in document["types"])

    def __getitem__(self, name: str) -> TypeInfo:
        return self._types.get(name, COMPUTED)

    def names(self) -> list[str]:
        """Return the names of the types, in the order of the API."""
        return list(self._types)


def check_json(text: str) -> None:
    """Raise `ValueError` or `RecursionError` if a text is not JSON."""
    json.loads(text, parse_constant=_refuse_constant, parse_float=str, parse_int=str)


def _refuse_constant(name: str) -> None:
    """Raise `ValueError` for `NaN` and `Infinity`, which Python reads as JSON."""
    raise ValueError(f"{name} is not a JSON value")


def value_text(value: Any) -> str | None:
    """Return a cell as text that an import reads as the same value; None for null."""
    match value:
        case None | str():
            return value
        case dict():
            return str(value["base64"])
        case float():
            return repr(value).replace("inf", "9e999")
    return json.dumps(value)


def row_json(row: Mapping[str, Any], types: Iterable[TypeInfo]) -> str:
    """Return a row of cells as JSON on one line. A document is its own text."""
    pairs = zip(row.items(), types, strict=True)
    members = (f"{_dumps(name)}: {_value_json(value, type)}" for (name, value), type in pairs)
    return f"{{{', '.join(members)}}}"


def _value_json(value: Any, type: TypeInfo) -> str:
    if type.form == "document" and isinstance(value, str):
        with suppress(ValueError, RecursionError):
            check_json(value)
            return value.replace("\n", " ").replace("\r", " ")
    is_text = isinstance(value, dict) or value in (math.inf, -math.inf)
    return _dumps(value_text(value) if is_text else value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".sql": "sql",
    ".db": "db",
    ".sqlite": "db",
    ".sqlite3": "db",
}
DATABASE_FORMATS = frozenset({"sql", "db"})
"""Formats of files with whole tables."""


def format_of(path: str) -> str:
    """Return the format for the suffix of a path. Raises `SvcError`."""
    format = _FORMATS.get(PurePath(path).suffix.lower())
    if format is None:
        raise SvcError(f"cannot determine the format of {path}", f"Available: {', '.join(_FORMATS)}.")
    return format


def require_complete(path: Path) -> None:
    """Raise `SvcError` for a database whose last changes are in another file, while a program has it open."""
    for suffix in ("-wal", "-journal"):
        log = path.with_name(path.name + suffix)
        with suppress(OSError), log.open("rb") as file:
            # Closed logs may stay, as empty files or with a header of zeros.
            if file.read(1).strip(b"\0"):
                raise SvcError(
                    f"{path} is incomplete: a program has it open, and changes are in {log.name}",
                    f"Close that program, or import a copy: sqlite3 {path} '.backup copy.db'",
                    code="conflict",
                )


Document = dict[str, Any]
"""A column or a change, as the control API takes it."""

COLUMN_SYNTAX = "NAME TYPE [primary key] [not null] [unique] [default VALUE] [note 'TEXT']"
CHANGE_SYNTAX = (
    "add NAME TYPE …",
    "drop NAME",
    "rename NAME to NEW",
    "rename to NEW",
    "alter NAME type TYPE",
    "alter NAME set|drop not null",
    "alter NAME set|drop unique",
    "alter NAME set default VALUE",
    "alter NAME drop default",
    "alter NAME set note 'TEXT'",
    "alter NAME drop note",
    "set primary key NAME …",
    "drop primary key",
    "set note 'TEXT'",
    "drop note",
    "create [unique] index on NAME …",
    "drop index INDEX",
    "drop table TABLE",
)
_FORMS: tuple[tuple[str, Document], ...] = (
    ("add COLUMN", {"op": "add-column"}),
    ("drop table TABLE", {"op": "drop-table"}),
    ("drop index NAME", {"op": "drop-index"}),
    ("drop primary key", {"op": "set-primary-key", "columns": []}),
    ("drop note", {"op": "set-note", "column": "", "note": ""}),
    ("drop OLD", {"op": "drop-column"}),
    ("rename to NAME", {"op": "rename-table"}),
    ("rename OLD to NAME", {"op": "rename-column"}),
    ("set primary key COLUMNS", {"op": "set-primary-key"}),
    ("set note NOTE", {"op": "set-note", "column": ""}),
    ("create index on COLUMNS", {"op": "create-index", "unique": False}),
    ("create unique index on COLUMNS", {"op": "create-index", "unique": True}),
    ("alter OLD type TYPE", {"op": "retype-column"}),
    ("alter OLD set not null", {"op": "set-nullable", "nullable": False}),
    ("alter OLD drop not null", {"op": "set-nullable", "nullable": True}),
    ("alter OLD set unique", {"op": "set-unique", "unique": True}),
    ("alter OLD drop unique", {"op": "set-unique", "unique": False}),
    ("alter OLD drop default", {"op": "set-default", "default": None}),
    ("alter OLD set default DEFAULT", {"op": "set-default"}),
    ("alter OLD drop note", {"op": "set-note", "note": ""}),
    ("alter OLD set note NOTE", {"op": "set-note"}),
)
"""Words and members of changes; upper case stands for values. The first form that fits is used."""
_TOKEN = re.compile(r"""[xX]'[0-9a-fA-F]*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|[,\n]|[^\s,'"]+""")
_SPACE = re.compile(r"[^\S\n]*")
_LITERAL = re.compile(r"[xX]?'.*'|now\(\)", re.IGNORECASE | re.DOTALL)
_PLAIN_NAME = re.compile(r"""[^\s'",]+""")
_RULE_HINTS = {"key": "primary key", "pk": "primary key"} | dict.fromkeys(
    ("required", "needed", "not-null", "notnull"), "not null"
)
_CHANGE_HINTS = {
    **dict.fromkeys(("retype", "type"), "alter NAME type TYPE"),
    **dict.fromkeys(("needed", "required", "not-null"), "alter NAME set not null"),
    **dict.fromkeys(("optional", "null"), "alter NAME drop not null"),
    "unique": "alter NAME set unique",
    **dict.fromkeys(("not", "not-unique"), "alter NAME drop unique"),
    "default": "alter NAME set default VALUE",
    **dict.fromkeys(("no", "no-default"), "alter NAME drop default"),
    "key": "set primary key NAME …",
    "no-key": "drop primary key",
    "note": "alter NAME set note 'TEXT'",
    "index": "create index on NAME …",
    "call": "rename to NEW",
}
_DESTRUCTIVE = frozenset({"drop-column", "drop-table"})


def parse_columns(text: str, types: ColumnTypes) -> list[Document]:
    """Return the columns of a new table. Raises `SvcError`."""
    columns = _each(text, lambda words: parse_column(words, types))
    if not columns:
        raise InvalidUsage("the columns are missing", f"Write {COLUMN_SYNTAX}.")
    return columns


def parse_column(words: Sequence[str], types: ColumnTypes) -> Document:
    """Return the column that words describe. Raises `SvcError`."""
    if len(words) < 2:
        hint = f"Write {COLUMN_SYNTAX}."
        if words and ":" in words[0]:
            hint = f"Separate name and type by a space: {words[0].replace(':', ' ', 1)}"
        raise InvalidUsage(f"column {words[0]} has no type" if words else "the column is missing", hint)
    type = _parse_type(words[1], types)
    column: Document = {"name": parse_name(words[0]), "type": type.name}
    rest = list(words[2:])
    while rest:
        used = 2
        match [word.lower() for word in rest[:2]]:
            case ["primary", "key"]:
                column["primary_key"] = True
            case ["not", "null"]:
                column["nullable"] = False
            case ["unique", *_]:
                column["unique"], used = True, 1
            case ["default", _]:
                column["default"] = _default(type, rest[1])
            case ["note", _]:
                column["note"] = _text(rest[1])
            case _:
                raise _unknown_rule(column["name"], rest[0])
        del rest[:used]
    return column


def parse_changes(table: Mapping[str, Any], text: str, types: ColumnTypes) -> list[Document]:
    """Return the changes of a table, whose document is that of `GET /table`. Raises `SvcError`.

    A change of the table's name comes last: the changes before it use the old name.
    """
    columns = {column["name"]: types[column["type"]] for column in table["columns"]}

    def parse(words: Sequence[str]) -> Document:
        change = {"table": table["name"], **_change(table["name"], words, columns, types)}
        match change["op"]:  # The changes after it see its columns.
            case "add-column":
                columns[change["column"]["name"]] = types[change["column"]["type"]]
            case "rename-column":
                columns[change["name"]] = columns.pop(change["column"])
            case "retype-column":
                columns[change["column"]] = types[change["type"]]
            case "drop-column":
                del columns[change["column"]]
        return change

    changes = _each(text, parse)
    if not changes:
        raise InvalidUsage("the changes are missing", f"Available: {', '.join(CHANGE_SYNTAX)}.")
    return sorted(changes, key=lambda change: change["op"] == "rename-table")


def is_destructive(change: Document) -> bool:
    """Return whether a change deletes values."""
    return change["op"] in _DESTRUCTIVE


def format_change(change: Document) -> str:
    """Return a change in this syntax."""
    form = next(form for form, members in _FORMS if members.items() <= change.items())
    return " ".join(_format_part(part, change) for part in form.split())


def _format_part(part: str, change: Document) -> str:
    match part:
        case "COLUMN":
            return format_column(change["column"])
        case "COLUMNS":
            return " ".join(map(format_name, change["columns"]))
        case "OLD":
            return format_name(change["column"])
        case "NAME" | "TABLE":
            return format_name(change[part.lower()])
        case "NOTE":
            return _quoted(change["note"])
    return str(change[part.lower()]) if part.isupper() else part


def format_column(column: Mapping[str, Any]) -> str:
    """Return a column in this syntax."""
    note = f"note {_quoted(column['note'])}" if column.get("note") else ""
    return " ".join(filter(None, (format_name(column["name"]), column["type"], *rules(column), note)))


def rules(column: Mapping[str, Any]) -> list[str]:
    """Return the rules of a column in this syntax, without its note."""
    result = ["primary key"] if column.get("primary_key") else []
    if not column.get("nullable", True) and not result:
        result.append("not null")
    if column.get("unique"):
        result.append("unique")
    if column.get("default") is not None:
        result.append(f"default {column['default']}")
    return result


def parse_name(word: str) -> str:
    """Return the name that a word stands for. Raises `SvcError`."""
    if word[0] == "'":
        hint = f"Write names in double quotes: {format_name(word[1:-1])}"
        raise InvalidUsage(f"{word} is not a name", hint)
    return word[1:-1].replace('""', '"') if word[0] == '"' else word


def format_name(name: str) -> str:
    """Return a name as a word, in double quotes where it needs them."""
    # `drop note` drops the note of the table, `drop "note"` a column.
    if _PLAIN_NAME.fullmatch(name) and name.lower() != "note":
        return name
    return '"' + name.replace('"', '""') + '"'


def _each(text: str, parse: Callable[[Sequence[str]], Document]) -> list[Document]:
    """Return the value of each part of a text. Raises `SvcError` with the line."""
    values = []
    for line, words in _parts(text):
        try:
            values.append(parse(words))
        except SvcError as error:
            if "\n" not in text.strip():
                raise
            raise InvalidUsage(f"line {line}: {error.message}", error.hint) from error
    return values


def _parts(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the words of each part between commas and line ends."""
    line, words, at = 1, list[str](), 0
    while at < len(text):
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            break
        token = _TOKEN.match(text, at)
        if token is None:
            hint = "Write a quote in a text twice: ''"
            raise InvalidUsage(f"a quote is not closed: {text[at : at + 40]}", hint)
        at = token.end()
        if token[0] in ",\n":
            if words:
                yield line, words
            words = []
        else:
            words.append(token[0])
        line += token[0].count("\n")
    if words:
        yield line, words


def _change(
    table: str, words: Sequence[str], columns: Mapping[str, TypeInfo], types: ColumnTypes
) -> Document:
    def column(word: str) -> str:
        name = parse_name(word)
        known = next((other for other in columns if other.lower() == name.lower()), None)
        if known is None:
            raise InvalidUsage(f"column {name} does not exist", f"Available: {', '.join(columns)}.")
        return known

    lower = [word.lower() for word in words]
    for form, members in _FORMS:
        parts = form.split()
        fits = len(words) == len(parts) or (len(words) > len(parts) and parts[-1] in ("COLUMN", "COLUMNS"))
        if not fits or any(
            not part.isupper() and part != word for part, word in zip(parts, lower, strict=False)
        ):
            continue
        change = dict(members)
        for at, part in enumerate(parts):
            match part:
                case "COLUMN":
                    change["column"] = parse_column(words[at:], types)
                case "COLUMNS":
                    change["columns"] = [column(word) for word in words[at:]]
                case "OLD":
                    change["column"] = column(words[at])
                case "NAME":
                    change["name"] = parse_name(words[at])
                case "TYPE":
                    change["type"] = _parse_type(words[at], types).name
                case "DEFAULT":
                    change["default"] = _default(columns[change["column"]], words[at])
                case "NOTE":
                    change["note"] = _text(words[at])
                case "TABLE" if parse_name(words[at]) != table:
                    hint = f"To drop it, write: drop table {format_name(table)}"
                    raise InvalidUsage(f"the table is named {table}", hint)
        return change
    if lower[0] == "alter" and len(words) > 1:
        column(words[1])  # An unknown column is the first mistake.
    raise _unknown_change(words)


def _parse_type(word: str, types: ColumnTypes) -> TypeInfo:
    """Return the type that a word names. Raises `SvcError`."""
    if word.lower() in types.names():
        return types[word.lower()]
    raise InvalidUsage(f"type {word} does not exist", _suggestion(word.lower(), types.names()))


def _default(type: TypeInfo, word: str) -> str:
    """Return a default as SQL. Text needs no quotes."""
    if _LITERAL.fullmatch(word):
        return word
    if word[0] == '"':
        raise InvalidUsage(f"{word} is not a value", f"Write text in single quotes: {_quoted(word[1:-1])}")
    if word.lower() in (*type.true_words, *type.false_words):
        return "true" if word.lower() in type.true_words else "false"
    return _quoted(word) if type.is_quoted else word


def _text(word: str) -> str:
    return word[1:-1].replace("''", "'") if word[0] == "'" else parse_name(word)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unknown_rule(column: str, word: str) -> SvcError:
    known = ("primary key", "not null", "unique", "default VALUE", "note 'TEXT'")
    name = word.lower().partition("=")[0]
    if name in _RULE_HINTS:
        hint = f"Did you mean {_RULE_HINTS[name]}?"
    elif name in ("default", "note"):
        hint = f"Write {name} and its value after a space; text with spaces in single quotes."
    else:
        hint = _suggestion(name, known)
    return InvalidUsage(f"column {column} has an unknown rule: {word}", hint)


def _unknown_change(words: Sequence[str]) -> SvcError:
    first = words[0].lower()
    forms = [form for form in CHANGE_SYNTAX if form.split()[0] == first]
    if first in _CHANGE_HINTS:
        hint = f"Did you mean {_CHANGE_HINTS[first]}?"
    elif forms:
        hint = f"Available: {', '.join(forms)}."
    else:
        verbs = list(dict.fromkeys(form.split()[0] for form in CHANGE_SYNTAX))
        hint = _suggestion(first, verbs)
    return InvalidUsage(f"unknown change: {' '.join(words)}", hint)


def _suggestion(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(word, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Available: {', '.join(names)}."


MAX_SHOWN = 40
"""Maximum characters of a cell in a change of the history."""


def wrote(write: Any) -> str:
    """Return what wrote to the tables: requests and their deployment, or a user."""
    requests = write["requests"]
    if requests:
        more = f" or {len(requests) - 1} others at the same time" if len(requests) > 1 else ""
        return f"request {requests[0]}{more}" + f" of {write['deployment']}" * bool(write["deployment"])
    user = f" by {write['user']}" if write["user"] else ""
    deployment = f" of {write['deployment']}" if write["deployment"] else ""
    return f"{write['by'] or 'unknown'}{user}{deployment}"


def changed_cells(row: Any) -> str:
    """Return the cells of a change of the history, before and after."""
    before, after = row["before"], row["after"]
    if before is None or after is None:
        return ", ".join(f"{name} {_short(cell)}" for name, cell in (before or after or {}).items())
    return ", ".join(f"{name} {_short(before.get(name))} → {_short(cell)}" for name, cell in after.items())


def history_begin(history: Any) -> str:
    """Return since when the changes in a history are known."""
    if history["since_ns"] is None:
        return "the history begins with the next write"
    verb = "begins at" if history["complete"] else "was searched back to"
    return f"the history {verb} {local_time(history['since_ns'])}"


def _short(cell: Any) -> str:
    text = json.dumps(cell, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
