"""Changes of a table as lines of words, as the control API takes them. Pure.

Each line is one change: `add city text`, `rename mail email`, `type age real`, `drop city`. The table itself
goes by `drop table NAME`, with its whole name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from screens.tables.columns_text import Spoken, column, default, name, spoken, type_name, words
from svc_tui.client import SvcError

FORMS = (
    "add NAME TYPE …",
    "rename NAME NEW",
    "type NAME TYPE",
    "drop NAME",
    "default NAME VALUE",
    "no default NAME",
    "needed NAME",
    "optional NAME",
    "unique NAME",
    "not unique NAME",
    "key NAME …",
    "no key",
    "note NAME TEXT",
    "note table TEXT",
    "index NAME …",
    "unique index NAME …",
    "drop index INDEX",
    "call it NEW",
    "drop table TABLE",
)
_LOSES = frozenset({"drop-column", "drop-table"})


def changes(table: Mapping[str, Any], text: str) -> list[Spoken]:
    """Return the changes that lines say of a table, as `GET /table` tells of it. Raises `SvcError`."""
    types = {each["name"]: each["type"] for each in table["columns"]}
    made: list[Spoken] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            change = _change(table["name"], words(line), types)
        except SvcError as error:
            raise SvcError(f"line {number}: {error.message}", error.hint) from error
        _see(change, types)
        made.append(change)
    if not made:
        raise SvcError("the changes are missing", f"Write {FORMS[0]}, {FORMS[1]}, {FORMS[3]}.")
    new = next((change["name"] for change in made if change["op"] == "rename-table"), None)
    return [*(c for c in made if c["op"] != "rename-table"), *_renamed(table["name"], new)]


def loses(change: Mapping[str, Any]) -> bool:
    """Whether rows or values go with a change."""
    return change["op"] in _LOSES


def said(change: Mapping[str, Any]) -> str:
    """Return a change for people."""
    op, of = change["op"].replace("-", " "), change.get("column", "")
    match change["op"]:
        case "add-column":
            return f"{op} {of['name']} {of['type']}"
        case "retype-column":
            return f"{op} {of} {change['type']}"
        case "rename-column" | "rename-table":
            return f"{op} {of or change['table']} {change['name']}"
        case "drop-table":
            return f"{op} {change['table']}"
        case "drop-index":
            return f"{op} {change['name']}"
        case "set-default":
            return f"{op} of {of}: {'none' if change['default'] is None else change['default']}"
        case "set-nullable":
            return f"{of} {'may be null' if change['nullable'] else 'needs a value'}"
        case "set-unique":
            return f"{of} is {'' if change['unique'] else 'not '}unique"
        case "set-primary-key":
            return f"key: {', '.join(change['columns']) or 'none'}"
        case "create-index":
            return f"create {'unique ' if change['unique'] else ''}index on {', '.join(change['columns'])}"
        case "set-note":
            return f"note on {of or 'the table'}: {change['note'] or 'none'}"
    return f"{op} {of}"


def _renamed(table: str, new: str | None) -> list[Spoken]:
    """Return the change of a table's name, which comes last: those before it say the old one."""
    return [{"op": "rename-table", "table": table, "name": new}] if new else []


def _see(change: Spoken, types: dict[str, str]) -> None:
    """Take up what a change makes of the columns."""
    match change["op"]:
        case "add-column":
            types[change["column"]["name"]] = change["column"]["type"]
        case "rename-column":
            types[change["name"]] = types.pop(change["column"])
        case "retype-column":
            types[change["column"]] = change["type"]
        case "drop-column":
            del types[change["column"]]


def _change(table: str, given: Sequence[str], types: Mapping[str, str]) -> Spoken:
    def at(word: str) -> str:
        found = name(word)
        if found not in types:
            raise SvcError(f"there is no column {found}", f"There are {', '.join(map(spoken, types))}.")
        return found

    rest = given[1:]
    match [given[0].lower(), *rest]:
        case ["drop", "table", which]:
            if name(which) != table:
                raise SvcError(f"the table is called {table}", f"`drop table {spoken(table)}` drops it.")
            return {"op": "drop-table", "table": table}
        case ["drop", "index", index]:
            return {"op": "drop-index", "name": name(index)}
        case ["call", "it", new]:
            made: Spoken = {"op": "rename-table", "name": name(new)}
        case ["add", *column_words] if column_words:
            made = {"op": "add-column", "column": column(column_words)}
        case ["rename", old, new]:
            made = {"op": "rename-column", "column": at(old), "name": name(new)}
        case ["type", which, type]:
            made = {"op": "retype-column", "column": at(which), "type": type_name(type)}
        case ["drop", which]:
            made = {"op": "drop-column", "column": at(which)}
        case ["default", which, value]:
            made = {"op": "set-default", "column": at(which), "default": default(types[at(which)], value)}
        case ["no", "default", which]:
            made = {"op": "set-default", "column": at(which), "default": None}
        case ["needed" | "optional" as word, which]:
            made = {"op": "set-nullable", "column": at(which), "nullable": word == "optional"}
        case ["unique", "index", first, *more]:
            made = {"op": "create-index", "columns": [at(each) for each in (first, *more)], "unique": True}
        case ["index", first, *more]:
            made = {"op": "create-index", "columns": [at(each) for each in (first, *more)], "unique": False}
        case ["unique", which]:
            made = {"op": "set-unique", "column": at(which), "unique": True}
        case ["not", "unique", which]:
            made = {"op": "set-unique", "column": at(which), "unique": False}
        case ["no", "key"]:
            made = {"op": "set-primary-key", "columns": []}
        case ["key", first, *more]:
            made = {"op": "set-primary-key", "columns": [at(each) for each in (first, *more)]}
        case ["note", "table", *text]:
            made = {"op": "set-note", "column": "", "note": name(" ".join(text))}
        case ["note", which, *text]:
            made = {"op": "set-note", "column": at(which), "note": name(" ".join(text))}
        case _:
            raise SvcError(f"this is no change: {' '.join(given)}", f"Changes are {', '.join(FORMS)}.")
    return {"table": table, **made}
