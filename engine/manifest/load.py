"""Loader of `svc.toml`: finds and parses the file, and reports every mistake at once.

The rules are in `schema.py`, `validate.py` and `mounts.py`, the messages in `explain.py`.
"""

import re
import stat
import tomllib
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.domains import parse_domain
from engine.manifest.explain import syntax_problem, type_problem
from engine.manifest.lanes import kind_of, registered_lanes
from engine.manifest.model import Mount, Project, Redirect, Resource, front_of
from engine.manifest.positions import (
    MAX_KEY_PARTS,
    KeyPath,
    Positions,
    find_positions,
    has_long_key,
    position_at,
)
from engine.manifest.problems import ManifestError, ManifestProblem, dotted
from engine.manifest.schema import Document, ResourceTable
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
        problem = ManifestProblem(
            0, 0, "", f"a line has {MAX_KEY_PARTS} dots or more outside of strings", "No key needs them."
        )
        raise ManifestError(path, [problem])
    try:
        raw = tomllib.loads(text)
    except RecursionError as error:
        problem = ManifestProblem(0, 0, "", "arrays or tables are nested too deeply", "No key needs them.")
        raise ManifestError(path, [problem]) from error
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(path, [syntax_problem(str(error), text)]) from error
    except ValueError as error:  # Python's text for a long number advises programmers.
        raise ManifestError(path, [_long_number_problem(text)]) from error
    root = root.resolve()
    positions = find_positions(text)
    names = list(raw["resource"]) if isinstance(raw.get("resource"), dict) else []
    if len(names) > MAX_RESOURCES:
        position = positions.nearest(("resource", names[MAX_RESOURCES]))
        message = f"a project has at most {MAX_RESOURCES} resources, and this one {len(names)}"
        problem = ManifestProblem(position.line, position.column, "", message, "Make several projects of it.")
        raise ManifestError(path, [problem])
    document, problems, broken = _validate(raw, positions)
    if document is not None:
        for key_path, message, hint in islice(validate(document, root, names, broken), MAX_PROBLEMS):
            position = positions.nearest(key_path)
            problems.append(ManifestProblem(position.line, position.column, dotted(key_path), message, hint))
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


def _long_number_problem(text: str) -> ManifestProblem:
    at = max(re.finditer(r"[0-9_]+", text), key=lambda match: len(match[0])).start()
    return ManifestProblem(*position_at(text, at), "", "a number has too many digits", "Write a shorter one.")


def warnings(project: Project) -> tuple[ManifestProblem, ...]:
    """Return problems that are allowed but probably not intended."""
    problems = []
    if not any(resource.public for resource in project.resources.values()):
        name = next(iter(project.resources))
        hint = f"Add to [resource.{name}] in {MANIFEST}: public = true"
        problems.append(
            ManifestProblem(
                0, 0, f"resource.{name}", "no resource is public, so nothing can be reached", hint
            )
        )
    for resource in project.resources.values():
        if kind_of(resource.lane) == "image" and resource.output is not None:
            if not project.root.is_relative_to(resource.output):
                continue
            key = f"resource.{resource.name}.output"
            message = f"{key} is the project folder: {MANIFEST} and all sources are served with it"
            problems.append(
                ManifestProblem(0, 0, key, message, "Move the files to serve to a separate folder.")
            )
    return tuple(problems)


def read(path: Path) -> bytes:
    """Return the first `MAX_BYTES` + 1 bytes of the manifest.

    Raises `NoProject` if the file is missing, `ManifestError` if it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            problem = ManifestProblem(
                0, 0, "", f"{path} is not a file", f"Put a file named {MANIFEST} in its place."
            )
            raise ManifestError(path, [problem])
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise NoProject(f"{path} does not exist", f"Restore {MANIFEST}.") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "its symbolic links form a loop"
        problem = ManifestProblem(
            0, 0, "", f"cannot read {path}: {reason}", "Check the type and permissions of the file."
        )
        raise ManifestError(path, [problem]) from error


def decode(path: Path, content: bytes) -> str:
    """Return the text of the manifest, its lines ending in `\\n`. Raises `ManifestError`."""
    if len(content) > MAX_BYTES:
        hint = "Check that this is the right file."
        problem = ManifestProblem(0, 0, "", f"larger than {MAX_BYTES >> 10} KiB", hint)
        raise ManifestError(path, [problem])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        problem = ManifestProblem(line, column, "", "the text is not UTF-8", "Save it as UTF-8.")
        raise ManifestError(path, [problem]) from error
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
    problems = [type_problem(detail, positions) for detail in details[:MAX_PROBLEMS]]
    if len(details) > MAX_PROBLEMS:
        position = positions.nearest(details[MAX_PROBLEMS]["loc"])
        message = f"{len(details) - MAX_PROBLEMS} more mistakes follow"
        problems.append(ManifestProblem(position.line, position.column, "", message))
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
    equal = {"lane", "public", "build", "spa", "run_limit_secs", "memory_limit_mb", "reads", "env"}
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
        not_found=table.not_found or "",
        rate=table.rate or "",
        redirects={pattern: Redirect(each.to, each.status) for pattern, each in table.redirects.items()},
        mounts=tuple(Mount(pattern, target) for pattern, target in table.mounts.items()),
        egress=tuple(table.egress),
        domains=tuple(map(parse_domain, table.domains)),
        secrets=tuple(table.secrets),
        **table.model_dump(include=equal),
    )
