"""`svc.toml` -> Project: reads, validates, and reports every mistake at once.

Owns finding the file and translating the words of `tomllib` and pydantic into ours.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from engine.errors import SvcError
from engine.manifest.check import findings, js_entry
from engine.manifest.document import Document, ProjectTable, ResourceTable
from engine.manifest.model import Mount, Project, Resource
from engine.manifest.places import places
from engine.manifest.problems import ManifestError, Problem, did_you_mean

MANIFEST = "svc.toml"
_KINDS = {
    "bool_type": "true or false",
    "string_type": "a string",
    "int_type": "a whole number",
    "list_type": "an array of strings",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_NAMES = {
    bool: "a boolean",
    str: "a string",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "a table",
}


class NoProject(SvcError):
    """There is no manifest here or above."""

    code = "no-project"


def find(start: Path) -> Path:
    """Return the nearest folder, from `start` up, that holds an `svc.toml`. Raises `NoProject`."""
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / MANIFEST).exists():
            return folder
    raise NoProject(
        f"there is no {MANIFEST} in {start} or any folder above it",
        "Make a Project with `svc new NAME`, or change to the folder of one.",
    )


def load(root: Path) -> Project:
    """Read the Project in a folder. Raises `ManifestError` with every mistake that can be told."""
    path = root / MANIFEST
    text = _read(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(path, [_syntax(str(error), text)]) from error
    lines = places(text)
    document, problems = _validate(raw, lines)
    broken = {problem.key for problem in problems}
    for where, message, hint in findings(document, root) if document is not None else ():
        key = ".".join(where)
        if not any(known == key or known.startswith(key + ".") for known in broken):
            problems.append(Problem(_line(where, lines), key, message, hint))
    if problems or document is None:
        raise ManifestError(path, problems)
    return _project(document, root)


def _validate(
    raw: dict[str, Any], lines: dict[tuple[str, ...], int]
) -> tuple[Document | None, list[Problem]]:
    """Check types and ranges; what is wrong is left out, so that the rest can be checked further."""
    try:
        return Document.model_validate(raw), []
    except ValidationError as error:
        details = error.errors()
    problems = [_problem(detail, raw, lines) for detail in details]
    for detail in details:
        where = [part for part in detail["loc"] if part != "[key]"]
        holder: Any = raw
        for part in where[:-1]:
            holder = holder[part]
        if isinstance(holder, dict):
            holder.pop(where[-1], None)
        if where[-1] in ("lane", "name") and isinstance(holder, dict):
            holder[where[-1]] = {"lane": "go", "name": "unnamed"}[str(where[-1])]
    try:
        return Document.model_validate(raw), problems
    except ValidationError:
        return None, problems


def warnings(project: Project) -> tuple[Problem, ...]:
    """Return what is allowed but hardly meant."""
    if any(resource.public for resource in project.resources.values()):
        return ()
    name = next(iter(project.resources))
    return (
        Problem(
            0,
            f"resource.{name}",
            "no Resource is public, so nothing can be reached",
            f"Add to [resource.{name}] in {MANIFEST}: public = true",
        ),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NoProject(f"{path} does not exist", "Make a Project with `svc new NAME`.") from error
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ManifestError(
            path, [Problem(line, "", "the text is not UTF-8", "Save it as UTF-8.")]
        ) from error
    except OSError as error:
        raise SvcError(
            f"{path} can not be read: {error.strerror}", "It must be a file you may read."
        ) from error


def _syntax(message: str, text: str) -> Problem:
    place = re.search(r"\(at (?:line (\d+), column \d+|end of document)\)", message)
    line = int(place.group(1)) if place and place.group(1) else text.count("\n") + 1
    what = message[: place.start()].strip() if place else message
    hints = {
        "twice": "Each table and key may stand once: join them or rename one.",
        "overwrite": "Each table and key may stand once: join them or rename one.",
        "value": 'A string needs quotes: name = "value".',
    }
    hint = next(
        (text for word, text in hints.items() if word in what.lower()), "See https://toml.io for the syntax."
    )
    return Problem(line, "", f"this is not TOML: {what[:1].lower() + what[1:]}", hint)


def _line(where: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> int:
    """Return the line of a key, or of the nearest table around it."""
    for length in range(len(where), 0, -1):
        if where[:length] in lines:
            return lines[where[:length]]
    return 1


def _problem(detail: ErrorDetails, raw: dict[str, Any], lines: dict[tuple[str, ...], int]) -> Problem:
    """Say in our words what pydantic found."""
    where = tuple(str(part) for part in detail["loc"] if part != "[key]")
    key, value, kind = where[-1], detail["input"], detail["type"]
    place = (_line(where, lines), ".".join(where))
    if kind == "extra_forbidden":
        return Problem(*place, f'unknown key "{key}"', did_you_mean(key, _known(where)))
    if kind == "missing":
        example = {"lane": 'lane = "static"', "name": 'name = "my-app"', "project": "[project]"}.get(key, "")
        example = example or f"[{key}.web]"
        return Problem(*place, f'"{key}" is missing', f"Add: {example}")
    if kind == "literal_error":
        choices = ["static", "go", "rust", "js"]
        hint = did_you_mean(str(value), choices)
        return Problem(*place, f'there is no lane "{value}"', hint)
    if kind == "string_pattern_mismatch":
        return Problem(
            *place,
            f'"{value}" is not a name for a Project',
            "Use a-z, 0-9 and single -, a letter first, at most 39 characters.",
        )
    if kind in ("greater_than_equal", "less_than_equal"):
        bounds = {"run_limit_secs": "1 to 900", "memory_limit_mb": "16 to 1024"}
        allowed = bounds.get(key, bounds["run_limit_secs"])
        return Problem(*place, f"{value} is out of range", f"Allowed: {allowed}.")
    if kind == "too_short":
        return Problem(*place, "there is no Resource", "Add one, for example [resource.web].")
    if kind in _KINDS:
        hint = _remedy(key, value)
        got = _NAMES.get(type(value), "something else")
        return Problem(*place, f"must be {_KINDS[kind]}, not {got}", hint)
    return Problem(*place, detail["msg"][:1].lower() + detail["msg"][1:])


def _known(where: tuple[str, ...]) -> list[str]:
    if len(where) == 1:
        return list(Document.model_fields)
    return list((ProjectTable if where[0] == "project" else ResourceTable).model_fields)


def _remedy(key: str, value: Any) -> str:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return f"Write it without quotes: {key} = {value.lower()}"
    if isinstance(value, str) and value.isdigit():
        return f"Write it without quotes: {key} = {value}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'Write it in quotes: {key} = "{value}"'
    return ""


def _project(document: Document, root: Path) -> Project:
    root = root.resolve()
    resources = {name: _resource(name, table, root) for name, table in document.resource.items()}
    return Project(document.project.name, root, resources)


def _resource(name: str, table: ResourceTable, root: Path) -> Resource:
    workdir = (root / table.workdir).resolve()
    entry = (workdir / table.entry).resolve() if table.entry is not None else None
    if table.lane == "js" and entry is None:
        entry = js_entry(workdir)
    return Resource(
        name=name,
        lane=table.lane,
        workdir=workdir,
        public=table.public,
        build=table.build,
        output=(workdir / table.output).resolve() if table.output is not None else None,
        entry=entry,
        spa=table.spa,
        mounts=tuple(Mount(pattern, target) for pattern, target in table.mounts.items()),
        run_limit_secs=table.run_limit_secs,
        memory_limit_mb=table.memory_limit_mb,
        egress=tuple(table.egress),
        env=dict(table.env),
        secrets=tuple(table.secrets),
    )
