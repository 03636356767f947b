"""Validation rules between the keys of a manifest, and between keys and the project folder."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from zoneinfo import available_timezones

from engine.manifest.egress import DomainInvalid, parse_collector, parse_domain, parse_rule
from engine.manifest.model import (
    MAX_REQUESTS,
    LaneSpec,
    Redirect,
    front_of,
    host_label,
    kind_of,
    normal_path,
    parse_rate,
    registered_lanes,
)
from engine.manifest.path_rules import (
    ENDLESS_HINT,
    endless,
    fields_problem,
    pattern_problem,
    redirect_problem,
)
from engine.manifest.problems import KeyPath, did_you_mean
from engine.manifest.schedules import MAX_PATH_CHARS, MAX_SCHEDULES, at_problem
from engine.manifest.schema import NAME_RULE, Document, ProjectTable, ResourceTable, is_name

Finding = tuple[KeyPath, str, str]
"""Key path, message and hint of a mistake."""
_TARGET = "A mount leads to another resource."
RESERVED = re.compile(r"SVC_.*|TRACEPARENT|OTEL_EXPORTER_OTLP_ENDPOINT")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_OWN_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "expect", "host", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
"""Headers of requests to collectors that a project cannot set."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OUTPUTS = {"component": "app.wasm", "image": "public"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
MAX_PREFIX_BYTES = 256
"""Maximum length of a prefix of keys, which have 512 bytes at most."""
_LABEL = 63
"""Maximum length of a host name label (RFC 1035, 2.3.4)."""


def validate(
    document: Document, root: Path, names: Sequence[str], broken: Set[KeyPath] = frozenset()
) -> Iterator[Finding]:
    """Yield every mistake in a document with valid types.

    `root` is the resolved project folder. `names` are all resources of the file, including those with tables
    too broken to be in the document. `broken` are the keys that were removed from the document.
    """
    if not is_name(document.project.name):
        yield ("project", "name"), f'"{document.project.name}" is not a name for a project', NAME_RULE
    yield from _front(document, names, broken)
    yield from _otlp(document.project)
    for name, table in document.resource.items():
        key_path = ("resource", name)
        broken_keys = {path[2] for path in broken if path[:2] == key_path and len(path) > 2}
        yield from _name(key_path, name, table, document.project.name)
        if "workdir" not in broken_keys:
            yield from _paths(key_path, table, root)
        if not broken_keys & {"lane", "build", "output", "files"}:
            yield from _lane(key_path, table)
        yield from mount_findings(name, table, list(names))
        if "lane" not in broken_keys:
            yield from fallback_findings(name, document.resource, list(names))
        for index, entry in enumerate(table.egress):
            if not parses(parse_rule, entry):
                hint = 'Write scheme and host, and the port if it is unusual: "https://api.example.com".'
                yield (*key_path, "egress", index), f'"{entry}" is not an origin', hint
        if table.rate is not None and not parses(parse_rate, table.rate):
            hint = f"Write requests (at most {MAX_REQUESTS}), and a period of s, m, h or d up to 1d."
            yield (*key_path, "rate"), f'"{table.rate}" is not a rate such as "20/1m"', hint
        yield from _variables(key_path, table)
        yield from _path_rules(key_path, table)
        yield from _schedules(key_path, table)
    count = sum(len(table.schedules) for table in document.resource.values())
    if count > MAX_SCHEDULES:
        last = next(name for name in reversed(document.resource) if document.resource[name].schedules)
        message = f"the project has {count} schedules; the maximum is {MAX_SCHEDULES}"
        yield ("resource", last, "schedules"), message, "Remove some of them."
    yield from cycle_findings(document.resource)
    yield from _domains(document, broken)


def _front(document: Document, names: Sequence[str], broken: Set[KeyPath]) -> Iterator[Finding]:
    front = document.project.front
    table = document.resource.get(front) if front is not None else None
    if front is not None and front not in names:
        yield ("project", "front"), f'unknown resource "{front}"', did_you_mean(front, list(names))
    elif table is not None and not table.public and ("resource", front, "public") not in broken:
        hint = f"Add to [resource.{front}]: public = true"
        yield ("project", "front"), f"the front {front} is not public", hint


def _otlp(table: ProjectTable) -> Iterator[Finding]:
    if table.otlp is not None and not parses(parse_collector, table.otlp):
        hint = 'Write scheme, host and port, and the path before /v1/traces: "https://otlp.example.com".'
        yield ("project", "otlp"), f'"{table.otlp}" is not the URL of a collector', hint
    if table.otlp_headers and table.otlp is None:
        yield ("project", "otlp_headers"), "otlp_headers needs otlp", 'Add otlp = "https://…", or remove it.'
    for name, secret in table.otlp_headers.items():
        path = ("project", "otlp_headers", name)
        if not _HEADER.fullmatch(name):
            yield path, f'"{name}" is not a header name', "Write a name such as authorization."
        elif name.lower() in _OWN_HEADERS:
            yield path, f"the header {name} is set by the platform", "Remove it."
        elif not _VARIABLE.fullmatch(secret):
            hint = f'Write the name of a secret, and set its value: {name} = "OTLP_TOKEN".'
            yield path, f"the value of {name} is not the name of a secret", hint


def _name(key_path: tuple[str, ...], name: str, table: ResourceTable, project: str) -> Iterator[Finding]:
    if not is_name(name):
        yield key_path, f'"{name}" is not a name for a resource', NAME_RULE
    elif table.public and name == "xn":
        message = f'browsers do not accept the host name part "{host_label(project, name)}"'
        yield key_path, message, "Choose another name."
    elif table.public and len(label := host_label(project, name)) > _LABEL:
        message = f'the host name part "{label}" has {len(label)} characters; the maximum is {_LABEL}'
        yield key_path, message, "Shorten the name of the resource or of the project."


def _paths(key_path: tuple[str, ...], table: ResourceTable, root: Path) -> Iterator[Finding]:
    workdir = _inside(root, table.workdir, root)
    if isinstance(workdir, str):
        hint = "Move the sources into the folder of svc.toml, or move svc.toml up."
        yield (*key_path, "workdir"), workdir, hint
        return
    if os.path.isfile(workdir):  # noqa: PTH113  False without access to it.
        yield (*key_path, "workdir"), f'"{table.workdir}" is a file', "Name the folder with the sources."
        return
    if table.entry is not None and os.path.isdir(workdir / table.entry):  # noqa: PTH112
        hint = "Name the module in it that exports fetch."
        yield (*key_path, "entry"), f'"{table.entry}" is a folder', hint
    for key, value in (("output", table.output), ("entry", table.entry)):
        if value is not None and isinstance(reason := _inside(workdir, value, root), str):
            hint = f"{key} is relative to workdir and stays inside the project folder."
            yield (*key_path, key), reason, hint


def _inside(base: Path, value: str, root: Path) -> Path | str:
    """Return a path with symlinks resolved, or the mistake if it is not inside `root`."""
    try:
        path = (base / value).resolve()
    except (OSError, ValueError, RuntimeError):
        return f'"{value}" cannot be resolved'
    return path if path.is_relative_to(root) else f'"{value}" is outside the project folder'


def _lane(key_path: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    lane = registered_lanes()[table.lane]
    component = lane.kind == "component"
    hint = f'Add the {"component" if component else "folder to serve"}: output = "{_OUTPUTS[lane.kind]}"'
    if table.files is not None and not component:
        yield from _files(key_path, table, table.files)
    elif table.output is None and lane.needs_output:
        yield (*key_path, "output"), f"a {lane.name} resource needs output", hint
    elif table.output is None and table.build is not None:
        yield (*key_path, "build"), "a build command needs output", hint
    if table.output is not None and table.build is None and component and not lane.needs_output:
        hint = f"Remove it: the {lane.name} lane makes the component itself. Or add the build that writes it."
        yield (*key_path, "output"), f"output has no meaning for a {lane.name} resource without build", hint
    if component:
        lanes = _lanes(lambda each: each.kind == "image")
        for key in ("builder", "files", "spa", "not_found", "fallback", "headers", "redirects"):
            if getattr(table, key):
                yield (*key_path, key), f"{key} is for {lanes} resources", "Remove it."
    elif table.builder is not None and table.build is None and table.files is None:
        hint = "Add build: the first build, and that of a deploy, run it."
        yield (*key_path, "builder"), "a builder needs a build command", hint
    if table.schedules and not component:
        hint = "Move it to a resource that runs code: svc add js."
        yield (*key_path, "schedules"), f"a {lane.name} resource runs no code", hint
    missing = [key for key in ("spa", "not_found", "fallback") if getattr(table, key)]
    if not component and len(missing) > 1:
        message = f"{' and '.join(missing[:2])} exclude each other"
        yield (*key_path, missing[1]), message, "Remove one of them."
    if table.entry is not None and lane.default_entry is None:
        lanes = _lanes(lambda each: each.default_entry is not None)
        yield (*key_path, "entry"), f"entry is for {lanes} resources", "Remove it."


def _files(key_path: tuple[str, ...], table: ResourceTable, files: str) -> Iterator[Finding]:
    for key in ("workdir", "build", "builder", "output", "spa"):
        if key in table.model_fields_set:
            message = f"{key} has no meaning with files: stored files are not built"
            yield (*key_path, key), message, f"Remove {key}, or files."
    segments = [each for each in _CONTROL.sub("", files).split("/") if each not in ("", ".", "..")]
    if (prefix := "".join(f"{each}/" for each in segments)) != files:
        message = f'"{files}" is not a prefix of keys: segments, each with a slash behind it'
        yield (*key_path, "files"), message, f'Write files = "{prefix or "public/"}".'
    elif len(prefix.encode()) > MAX_PREFIX_BYTES:
        yield (*key_path, "files"), f"the prefix has more than {MAX_PREFIX_BYTES} bytes", "Shorten it."


def _lanes(fits: Callable[[LaneSpec], bool]) -> str:
    return " and ".join(name for name, spec in registered_lanes().items() if fits(spec))


def _domains(document: Document, broken: Set[KeyPath]) -> Iterator[Finding]:
    """Yield mistakes of all domains: a name belongs to one resource."""
    places: dict[str, str] = {}
    project, front = document.project, front_of(document.resource, document.project.front or "")
    if project.domains and not front:
        hint = "Set front in [project] to a public resource."
        yield ("project", "domains"), "the project has no front", hint
    elif project.domains and document.resource[front].domains:
        hint = "Move all of them to one place: the first one is that to which others redirect."
        yield ("project", "domains"), f"resource {front}, the front, has domains too", hint
    tables: list[tuple[tuple[str, ...], list[str]]] = [(("project",), project.domains)]
    for name, table in document.resource.items():
        tables.append((("resource", name), table.domains))
        key = "domains" if table.domains else "hsts"
        private = not table.public and ("resource", name, "public") not in broken
        if private and (table.domains or table.hsts):
            yield ("resource", name, key), f"{key} needs a public resource", "Add: public = true"
    for key_path, domains in tables:
        for index, text in enumerate(domains):
            path: KeyPath = (*key_path, "domains", index)
            try:
                domain = parse_domain(text)
            except DomainInvalid as error:
                yield path, error.message, error.hint
                continue
            if domain in places:
                yield path, f"{domain} is in {places[domain]} already", "Remove it from one of them."
            places.setdefault(domain, f"{'.'.join(key_path)}.domains")


def parses(parse: Callable[[str], object], text: str) -> bool:
    """Return whether a parser accepts a text."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _path_rules(key_path: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    for key in ("headers", "redirects"):
        patterns: dict[str, str] = {}
        for pattern in getattr(table, key):
            if (twin := patterns.setdefault(normal_path(pattern), pattern)) != pattern:
                message = f'"{pattern}" is the same path as "{twin}"'
                yield (*key_path, key, pattern), message, "Remove one of them."
    for pattern, fields in table.headers.items():
        for name, problem in fields_problem(pattern, fields):
            yield (*key_path, "headers", pattern, *([name] if name else [])), *problem
    valid = {}
    for pattern, redirect in table.redirects.items():
        invalid = redirect_problem(pattern, redirect.to, redirect.status)
        if invalid is not None:
            yield (*key_path, "redirects", pattern), *invalid
        else:
            valid[pattern] = Redirect(redirect.to, redirect.status)
    for pattern, steps in endless(valid):
        yield (*key_path, "redirects", pattern), f"the redirect leads to itself: {steps}", ENDLESS_HINT


def _schedules(key_path: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    # The files `localtime` of a developer's machine and of a service can differ, or be missing.
    if table.timezone != "UTC" and table.timezone not in (zones := available_timezones() - {"localtime"}):
        hint = did_you_mean(table.timezone, sorted(zones)) or 'Write a name such as "Europe/Zurich".'
        yield (*key_path, "timezone"), f'unknown time zone "{table.timezone}"', hint
    paths: dict[str, str] = {}
    for path, schedule in table.schedules.items():
        where = (*key_path, "schedules", path)
        problem = pattern_problem(path)
        if "*" in path:
            problem = f'"{path}" is not a path: it has a *', "Write the one path that svc requests."
        elif len(path) > MAX_PATH_CHARS:
            problem = f"the path has {len(path)} characters; the maximum is {MAX_PATH_CHARS}", "Shorten it."
        if problem is not None:
            yield where, *problem
        elif (twin := paths.setdefault(normal_path(path), path)) != path:
            yield where, f'"{path}" is the same path as "{twin}"', "Remove one of them."
        if (problem := at_problem(schedule.at)) is not None:
            yield where, *problem


def _variables(key_path: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    variables: list[tuple[KeyPath, str]] = [((*key_path, "env", name), name) for name in table.env]
    variables += [((*key_path, "secrets", index), name) for index, name in enumerate(table.secrets)]
    for path, name in variables:
        if not _VARIABLE.fullmatch(name):
            yield path, f'"{name}" is not a variable name', "Use letters, digits and _, no digit first."
        elif RESERVED.fullmatch(name):
            yield path, f"{name} is set by the platform", "Choose another name."
    texts = [((*key_path, "env", name), f"the value of {name}", value) for name, value in table.env.items()]
    commands = [((*key_path, key), "the command", getattr(table, key) or "") for key in ("build", "builder")]
    for path, subject, text in [*texts, *commands]:
        if "\0" in text:
            yield path, f"{subject} has a NUL character", "Remove \\u0000 from it."
    for index, name in enumerate(table.secrets):
        if name in table.env:
            yield (*key_path, "secrets", index), f"{name} is in env as well", "Remove it from one of them."


def mount_findings(name: str, table: ResourceTable, names: list[str]) -> Iterator[Finding]:
    """Yield the mistakes in one resource's mounts; `names` are all resources of the file."""
    patterns: dict[str, str] = {}
    for pattern, target in table.mounts.items():
        key_path = ("resource", name, "mounts", pattern)
        problem = pattern_problem(pattern)
        twin = patterns.setdefault(normal_path(pattern), pattern)
        if problem is not None:
            yield key_path, *problem
        elif twin != pattern:
            yield key_path, f'"{pattern}" is the same path as "{twin}"', "Remove one of them."
        if target == name:
            yield key_path, f"{name} is mounted into itself", _TARGET
        elif target not in names:
            candidates = [other for other in names if other != name and is_name(other)]
            table_hint = f"Add a table [resource.{target}]." if is_name(target) else _TARGET
            hint = did_you_mean(target, candidates) or table_hint
            yield key_path, f'unknown resource "{target}"', hint


def fallback_findings(name: str, tables: Mapping[str, ResourceTable], names: list[str]) -> Iterator[Finding]:
    """Yield the mistake in one resource's fallback; `names` are all resources of the file."""
    target, key_path = tables[name].fallback, ("resource", name, "fallback")
    dynamic = [each for each, table in tables.items() if kind_of(table.lane) == "component"]
    if target is None or name in dynamic:
        return
    remedy = f"Name a resource that runs code: {', '.join(dynamic)}." if dynamic else "Add one: svc add js."
    if target == name:
        yield key_path, f"{name} is its own fallback", remedy
    elif target not in names:
        yield key_path, f'unknown resource "{target}"', did_you_mean(target, dynamic) or remedy
    elif target in tables and target not in dynamic:
        yield key_path, f"the fallback {target} serves files only", remedy


def cycle_findings(tables: Mapping[str, ResourceTable]) -> Iterator[Finding]:
    """Yield each cycle of mounts and fallbacks once, at the one that closes it."""
    visited: set[str] = set()
    for start in tables:
        trail = [start]
        iterators = [_targets(start, tables)]
        while trail:
            step = next(iterators[-1], None)
            if step is None:
                visited.add(trail.pop())
                iterators.pop()
                continue
            key, target = step
            if target in trail:
                cycle = " → ".join([*trail[trail.index(target) :], target])
                hint = "Remove one mount of the cycle, or its fallback."
                yield ("resource", trail[-1], *key), f"the mounts form a cycle: {cycle}", hint
            elif target not in visited:
                trail.append(target)
                iterators.append(_targets(target, tables))


def _targets(name: str, tables: Mapping[str, ResourceTable]) -> Iterator[tuple[KeyPath, str]]:
    """Yield key path and target of a resource's valid mounts and its fallback, each target once."""
    targets = {name}
    edges: list[tuple[KeyPath, str]] = [
        (("mounts", pattern), target) for pattern, target in tables[name].mounts.items()
    ]
    for key, target in (*edges, (("fallback",), tables[name].fallback or "")):
        if target in tables and target not in targets:
            targets.add(target)
            yield key, target
