"""Messages and hints for errors of `tomllib` and pydantic."""

import datetime
import json
import re
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from engine.manifest.lanes import registered_lanes
from engine.manifest.positions import KeyPath, Positions, find_positions, find_unclosed
from engine.manifest.problems import ManifestProblem, did_you_mean, dotted
from engine.manifest.schema import Document, ProjectTable, RedirectTable, ResourceTable

_EXPECTED = {
    "bool_type": "true or false",
    "string_type": "a string",
    "int_type": "a whole number",
    "list_type": "an array of strings",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_TYPE_NAMES: dict[type, str] = {
    bool: "a boolean",
    str: "a string",
    int: "a number",
    float: "a decimal number",
    list: "an array",
    dict: "a table",
    datetime.datetime: "a date",
    datetime.date: "a date",
    datetime.time: "a time",
}
_EXAMPLES = {
    "lane": 'lane = "{lane}"',
    "name": 'name = "my-app"',
    "project": 'a table [project] with name = "my-app"',
    "resource": 'a table, for example [resource.web] with lane = "{lane}"',
    "to": 'to = "/new"',
}
_TABLES = {
    "env": 'NAME = "value"',
    "mounts": '"/api/*" = "api"',
    "headers": '"/assets/*" = { "cache-control" = "no-cache" }',
    "redirects": '"/old/*" = "/new/*"',
    "otlp_headers": 'authorization = "OTLP_TOKEN"',
}
_FORMS = {
    "check": ("a path", 'It begins with / and is written as in a URL: check = "/health".'),
    "redact_headers": ("the name of a header field", 'Names are as in ["x-api-key"].'),
}
_ONCE = "Merge the two, or rename one."
_SYNTAX = "See https://toml.io for how it is written."
_SYNTAX_HINTS = {
    "Expected '='": 'Write key = "value".',
    "Invalid value": 'A string needs quotes, a boolean is true or false: key = "value".',
    r"Illegal character '\n'": "Close the quotes on this line.",
    "Expected newline": "Begin a new line for the next key.",
    "Expected ']'": "Close the bracket: [resource.web]",
}
_BRACKETS = {"[": ("the array", "]"), "{": ("the inline table", "}")}
_WHERE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE = re.compile(r"twice|overwrite|mutate|immutable", re.IGNORECASE)


def syntax_problem(message: str, text: str) -> ManifestProblem:
    """Explain why `tomllib` could not read a text."""
    position = _WHERE.search(message)
    reason = message[: position.start()] if position else message
    line, column = text.count("\n") + 1, 1
    if position and position.group(1):
        line, column = int(position.group(1)), int(position.group(2))
    if _TWICE.search(reason):
        positions = find_positions(text)
        twice = min(((position, path) for path, position in positions.again.items()), default=None)
        if twice is not None:
            (line, column), path = twice
            message = f"duplicate key; the first is in line {positions.first[path].line}"
            return ManifestProblem(line, column, dotted(path), message, _ONCE)
        return ManifestProblem(line, column, "", f"invalid TOML: {_lower(reason)}", _ONCE)
    at_end = position is not None and not position.group(1)
    if at_end and (unclosed := find_unclosed(text)) is not None:
        bracket, (line, column) = unclosed
        name, closing = _BRACKETS[bracket]
        return ManifestProblem(line, column, "", f"{name} is not closed", f"Close it with {closing}")
    if at_end and reason != "Invalid value":
        return ManifestProblem(
            line, column, "", f"the text ends unexpectedly: {_lower(reason)}", "Close what is open."
        )
    hint = next((hint for words, hint in _SYNTAX_HINTS.items() if words in reason), _SYNTAX)
    return ManifestProblem(line, column, "", f"invalid TOML: {_lower(reason)}", hint)


def type_problem(detail: ErrorDetails, positions: Positions) -> ManifestProblem:
    """Explain a validation error of one key."""
    path: KeyPath = detail["loc"]
    message, hint = _explain(str(path[-1]), path, detail)
    position = positions.nearest(path)
    return ManifestProblem(position.line, position.column, dotted(path), message, hint)


def _explain(key: str, path: KeyPath, detail: ErrorDetails) -> tuple[str, str]:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        if key == "runLimitSecs":
            return "runLimitSecs and run_limit_secs are the same key", "Remove one of the two."
        return f'unknown key "{key}"', did_you_mean(key, _known(path))
    if kind == "missing":
        return f'"{key}" is missing', f"Add {_example(key)}."
    if kind == "unknown_lane":
        return f"unknown lane {_quoted(value)}", did_you_mean(str(value), list(registered_lanes()))
    if kind in ("greater_than_equal", "less_than_equal"):
        low, high = _range(key)
        return f"{value} is out of range", f"Allowed: {low} to {high}."
    if kind == "too_short":
        return "no resource is defined", f"Add {_example('resource')}."
    if kind == "string_too_short":
        return "must not be empty", f"Write something, or remove {key}."
    if kind == "string_pattern_mismatch":
        expected, hint = _FORMS[str(path[1])]
        return f"{_quoted(value)} is not {expected}", hint
    if kind in _EXPECTED:
        actual = _TYPE_NAMES.get(type(value), "something else")
        return f"must be {_EXPECTED[kind]}, not {actual}", _remedy(path, kind, value)
    return _lower(detail["msg"]), ""


def _example(key: str) -> str:
    return _EXAMPLES[key].format(lane=next(iter(registered_lanes())))


def _known(path: KeyPath) -> list[str]:
    """Return the valid keys of the table around `path`."""
    model: type[BaseModel] = Document
    if len(path) > 1:
        model = ProjectTable if path[0] == "project" else ResourceTable
    if "redirects" in path[2:3]:
        model = RedirectTable
    return list(model.model_fields)


def _range(key: str) -> tuple[Any, Any]:
    bounds = {type(rule).__name__: rule for rule in _number(key).metadata}
    return bounds["Ge"].ge, bounds["Le"].le


def _number(key: str) -> FieldInfo:
    """Return the field of a key that takes a number."""
    if key in RedirectTable.model_fields:
        return RedirectTable.model_fields[key]
    return ResourceTable.model_fields["run_limit_secs" if key == "runLimitSecs" else key]


def _remedy(path: KeyPath, kind: str, value: Any) -> str:
    """Return a hint with the value that was probably intended, or with an example."""
    name = path[-1]
    if kind == "bool_type":
        intended = isinstance(value, str) and value.lower() in ("true", "false")
        return f"Write it without quotes: {name} = {value.lower()}" if intended else "Write true or false."
    if kind == "int_type":
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return f"Write it without quotes: {name} = {value}"
        return f"Write a whole number, such as {_number(str(name)).default}."
    if kind == "string_type":
        return _string_remedy(path, value)
    if kind == "list_type":
        return f'Write strings in brackets: {name} = ["{value if isinstance(value, str) else "…"}"]'
    if path[0] == "resource" and len(path) <= 2:
        return "Write a resource as a table: [resource.web]"
    if len(path) == 1:
        return f"Write {_example('project')}."
    if len(path) > 3:
        return f"Write {path[2]} = {{ {_TABLES[str(path[2])]} }}"
    return f"Write a table: {name} = {{ {_TABLES[str(name)]} }}"


def _string_remedy(path: KeyPath, value: Any) -> str:
    key = "" if isinstance(path[-1], int) else f"{dotted(path[-1:])} = "
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return f"Write it without brackets: {key}{json.dumps(value[0], ensure_ascii=False)}"
    if path[0] == "resource" and path[2:] == ("lane",):
        return f"Write a lane in quotes: {_example('lane')}"
    if isinstance(value, bool | int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f'Write it in quotes: {key}"{text}"'
    return f'Write text in quotes: {key}"…"'


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
