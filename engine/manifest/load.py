"""Loader of `svc.toml`: finds and parses the file, and reports every mistake at once.

The rules are in `schema.py` and `validate.py`. Messages for errors of `tomllib` and pydantic are here.
"""

import datetime
import json
import re
import stat
import tomllib
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.egress import parse_domain
from engine.manifest.model import Mount, Project, Redirect, Resource, front_of, kind_of, registered_lanes
from engine.manifest.problems import (
    MAX_KEY_PARTS,
    KeyPath,
    ManifestError,
    ManifestProblem,
    Positions,
    did_you_mean,
    dotted,
    find_positions,
    find_unclosed,
    has_long_key,
    mistake,
    position_at,
)
from engine.manifest.schedules import Schedule
from engine.manifest.schema import Document, ProjectTable, RedirectTable, ResourceTable, ScheduleTable
from engine.manifest.validate import validate

MAX_BYTES = 256 << 10
"""Maximum size. A manifest is written by hand, so a larger file is another file."""
MAX_RESOURCES = 200
MAX_PROBLEMS = 100
"""Maximum number of mistakes that are listed: each takes a millisecond to explain."""


class NoProject(SvcError):
    """No manifest exists in the folder or its parents."""

    code = "no-project"


def find(start: Path) -> Path:
    """Return the nearest folder, from `start` up, that holds an `svc.toml`. Raises `NoProject`."""
    start = start.absolute()
    for folder in (start, *start.parents):
        try:
            (folder / MANIFEST).lstat()
        except OSError:
            continue
        # SQLite opens only paths in UTF-8.
        if "\\udc" in ascii(str(folder)):
            raise SvcError(f"the path of the project is not UTF-8: {str(folder)!a}", "Rename that folder.")
        return folder
    raise NoProject(
        f"no {MANIFEST} in {start} or any folder above it",
        "Create a project with `svc new NAME`, or change to a project folder.",
    )


def load(root: Path) -> Project:
    """Read the project in a folder. Raises `ManifestError` with every mistake, `NoProject` without a file."""
    return parse(root, read(root / MANIFEST))


def parse(root: Path, content: bytes) -> Project:
    """Return the project for the content of the manifest in a folder. Raises `ManifestError`."""
    path = root / MANIFEST
    text = decode(path, content)
    if has_long_key(text):
        message = f"a line has {MAX_KEY_PARTS} dots or more outside of strings"
        raise mistake(path, message, "No key needs them.")
    try:
        raw = tomllib.loads(text)
    except RecursionError as error:
        raise mistake(path, "arrays or tables are nested too deeply", "No key needs them.") from error
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(path, [syntax_problem(str(error), text)]) from error
    except ValueError as error:  # Python's text for a long number advises programmers.
        at = max(re.finditer(r"[0-9_]+", text), key=lambda match: len(match[0])).start()
        line, column = position_at(text, at)
        message = "a number has too many digits"
        raise mistake(path, message, "Write a shorter one.", line=line, column=column) from error
    root = root.resolve()
    positions = find_positions(text)
    names = list(raw["resource"]) if isinstance(raw.get("resource"), dict) else []
    if len(names) > MAX_RESOURCES:
        line, column = positions.nearest(("resource", names[MAX_RESOURCES]))
        message = f"a project has at most {MAX_RESOURCES} resources, and this one {len(names)}"
        raise mistake(path, message, "Make several projects of it.", line=line, column=column)
    document, problems, broken = _validate(raw, positions)
    if document is not None:
        for key_path, message, hint in islice(validate(document, root, names, broken), MAX_PROBLEMS):
            problems.append(ManifestProblem(*positions.nearest(key_path), dotted(key_path), message, hint))
    if problems or document is None:
        raise ManifestError(path, problems)
    resources = {name: _resource(name, table, root) for name, table in document.resource.items()}
    table = document.project
    redacted = frozenset(name.lower() for name in table.redact_headers)
    recorded = redacted if table.record_bodies else None
    settings: dict[str, Any] = {"otlp": table.otlp or "", "otlp_headers": dict(table.otlp_headers)}
    settings["front_name"] = table.front or ""
    if table.domains:
        front = front_of(resources, table.front or "")
        resources[front] = replace(resources[front], domains=tuple(map(parse_domain, table.domains)))
    return Project(table.name, root, resources, table.check, recorded, **settings)


def warnings(project: Project) -> tuple[ManifestProblem, ...]:
    """Return problems that are allowed but probably not intended."""
    problems = []
    if not any(resource.public or resource.schedules for resource in project.resources.values()):
        name = next(iter(project.resources))
        hint = f"Add to [resource.{name}] in {MANIFEST}: public = true"
        message = "no resource is public, so nothing can be reached"
        problems.append(ManifestProblem(0, 0, f"resource.{name}", message, hint))
    for resource in project.resources.values():
        if kind_of(resource.lane) == "image" and resource.output is not None:
            if not project.root.is_relative_to(resource.output):
                continue
            key = f"resource.{resource.name}.output"
            message = f"{key} is the project folder: {MANIFEST} and all sources are served with it"
            hint = "Move the files to serve to a separate folder."
            problems.append(ManifestProblem(0, 0, key, message, hint))
    return tuple(problems)


def read(path: Path) -> bytes:
    """Return the first `MAX_BYTES` + 1 bytes of the manifest.

    Raises `NoProject` if the file is missing, `ManifestError` if it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise mistake(path, f"{path} is not a file", f"Put a file named {MANIFEST} in its place.")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise NoProject(f"{path} does not exist", f"Restore {MANIFEST}.") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "its symbolic links form a loop"
        hint = "Check the type and permissions of the file."
        raise mistake(path, f"cannot read {path}: {reason}", hint) from error


def decode(path: Path, content: bytes) -> str:
    """Return the text of the manifest, its lines ending in `\\n`. Raises `ManifestError`."""
    if len(content) > MAX_BYTES:
        raise mistake(path, f"larger than {MAX_BYTES >> 10} KiB", "Check that this is the right file.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = "the text is not UTF-8"
        raise mistake(path, message, "Save it as UTF-8.", line=line, column=column) from error
    return text.replace("\r\n", "\n")


def _validate(
    raw: dict[str, Any], positions: Positions
) -> tuple[Document | None, list[ManifestProblem], set[KeyPath]]:
    """Validate types and ranges; remove invalid keys so that the rest can be validated too."""
    try:
        return Document.model_validate(raw), [], set()
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
    for detail in details:
        _exclude(raw, detail["loc"], missing=detail["type"] == "missing")
    problems = [
        ManifestProblem(*positions.nearest(each["loc"]), dotted(each["loc"]), *_explain(each))
        for each in details[:MAX_PROBLEMS]
    ]
    if len(details) > MAX_PROBLEMS:
        position = positions.nearest(details[MAX_PROBLEMS]["loc"])
        message = f"{len(details) - MAX_PROBLEMS} more mistakes follow"
        problems.append(ManifestProblem(*position, "", message))
    try:
        return Document.model_validate(raw), problems, {detail["loc"] for detail in details}
    except ValidationError:
        return None, problems, set()


def _exclude(raw: dict[str, Any], path: KeyPath, *, missing: bool) -> None:
    """Remove an invalid key from the tables, or replace it by a valid value if it is required."""
    holder: Any = raw
    for key in path[:-1]:
        if not isinstance(holder, dict) or not isinstance(holder.get(str(key)), dict):
            path = path[: path.index(key) + 1]
            break
        holder = holder[str(key)]
    needed: dict[KeyPath, Any] = {("project",): {"name": "unnamed"}, ("project", "name"): "unnamed"}
    if path in needed:
        holder[path[-1]] = needed[path]
    elif path[0] == "resource" and len(path) == 3 and path[-1] == "lane":
        holder["lane"] = next(iter(registered_lanes()))
    elif not missing and isinstance(holder, dict):
        holder.pop(str(path[-1]), None)


def _resource(name: str, table: ResourceTable, root: Path) -> Resource:
    equal = {"lane", "public", "build", "builder", "spa", "run_limit_secs", "memory_limit_mb", "reads", "env"}
    equal |= {"headers", "hsts"}
    workdir = (root / table.workdir).resolve()
    entry = (workdir / table.entry).resolve() if table.entry is not None else None
    default_entry = registered_lanes()[table.lane].default_entry
    if entry is None and default_entry is not None:
        entry = default_entry(workdir, root)
    return Resource(
        name=name,
        workdir=workdir,
        output=(workdir / table.output).resolve() if table.output is not None else None,
        entry=entry,
        files=table.files or "",
        not_found=table.not_found or "",
        fallback=table.fallback or "",
        rate=table.rate or "",
        redirects={pattern: Redirect(each.to, each.status) for pattern, each in table.redirects.items()},
        schedules=tuple(
            Schedule(path, each.at, table.timezone, each.overlap, each.catch_up)
            for path, each in table.schedules.items()
        ),
        mounts=tuple(Mount(pattern, target) for pattern, target in table.mounts.items()),
        egress=tuple(table.egress),
        domains=tuple(map(parse_domain, table.domains)),
        secrets=tuple(table.secrets),
        **table.model_dump(include=equal),
    )


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
    "at": 'at = "0 3 * * *"',
}
_TABLES = {
    "env": 'NAME = "value"',
    "mounts": '"/api/*" = "api"',
    "headers": '"/assets/*" = { "cache-control" = "no-cache" }',
    "redirects": '"/old/*" = "/new/*"',
    "schedules": '"/nightly" = "0 3 * * *"',
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
        if positions.again:
            path = min(positions.again, key=positions.again.__getitem__)
            line, column = position_at(text, positions.again[path])
            first = position_at(text, positions.first[path])
            message = f"duplicate key; the first is in line {first.line}"
            return ManifestProblem(line, column, dotted(path), message, _ONCE)
        return ManifestProblem(line, column, "", f"invalid TOML: {_lower(reason)}", _ONCE)
    at_end = position is not None and not position.group(1)
    if at_end and (unclosed := find_unclosed(text)) is not None:
        bracket, (line, column) = unclosed
        name, closing = _BRACKETS[bracket]
        return ManifestProblem(line, column, "", f"{name} is not closed", f"Close it with {closing}")
    if at_end and reason != "Invalid value":
        message = f"the text ends unexpectedly: {_lower(reason)}"
        return ManifestProblem(line, column, "", message, "Close what is open.")
    hint = next((hint for words, hint in _SYNTAX_HINTS.items() if words in reason), _SYNTAX)
    return ManifestProblem(line, column, "", f"invalid TOML: {_lower(reason)}", hint)


def _explain(detail: ErrorDetails) -> tuple[str, str]:
    path, kind, value = detail["loc"], detail["type"], detail["input"]
    key = str(path[-1])
    if kind == "extra_forbidden":
        if key == "runLimitSecs":
            return "runLimitSecs and run_limit_secs are the same key", "Remove one of the two."
        return f'unknown key "{key}"', did_you_mean(key, _known(path))
    if kind == "missing":
        return f'"{key}" is missing', f"Add {_example(key)}."
    if kind == "unknown_lane":
        return f"unknown lane {_quoted(value)}", did_you_mean(str(value), list(registered_lanes()))
    if kind in ("greater_than_equal", "less_than_equal"):
        bounds = {type(rule).__name__: rule for rule in _number(key).metadata}
        low, high = bounds["Ge"].ge, bounds["Le"].le
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
    if "schedules" in path[2:3]:
        model = ScheduleTable
    return list(model.model_fields)


def _number(key: str) -> FieldInfo:
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
