"""What must hold between the keys of a manifest: names, folders, mounts, origins.

Owns the rules that one key alone cannot show. Each finds every mistake of its kind and raises none.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from engine.manifest.document import Document, ResourceTable
from engine.manifest.problems import did_you_mean
from engine.wasm.egress import parse_authority

Finding = tuple[tuple[str, ...], str, str]
"""Where (key path), what is wrong, what to do."""

RESERVED_ENV = re.compile(r"SVC_.*|TRACEPARENT|OTEL_EXPORTER_OTLP_ENDPOINT")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,38}")
NAME_RULE = "Use a-z, 0-9 and single -, a letter first, at most 39 characters."


def findings(document: Document, root: Path) -> Iterator[Finding]:
    """Yield every mistake in a document whose types are right."""
    if not is_name(document.project.name):
        yield ("project", "name"), f'"{document.project.name}" is not a name for a Project', NAME_RULE
    for name, table in document.resource.items():
        where = ("resource", name)
        if not is_name(name):
            yield where, f'"{name}" is not a name for a Resource', NAME_RULE
        yield from _paths(where, table, root)
        yield from _lane(where, table)
        yield from _mounts(where, name, table, document)
        yield from _egress(where, table)
        yield from _variables(where, table)
    yield from _cycles(document)


def is_name(text: str) -> bool:
    """Whether the text may name a Project or a Resource: `--` separates the two in host names."""
    return _NAME.fullmatch(text) is not None and "--" not in text and not text.endswith("-")


def _paths(where: tuple[str, ...], table: ResourceTable, root: Path) -> Iterator[Finding]:
    workdir = (root / table.workdir).resolve()
    if not workdir.is_relative_to(root.resolve()):
        yield (
            (*where, "workdir"),
            f'"{table.workdir}" is outside the Project folder',
            "Move the sources into the folder of svc.toml, or move svc.toml up.",
        )
        return
    for key, value in (("output", table.output), ("entry", table.entry)):
        if value is not None and not (workdir / value).resolve().is_relative_to(root.resolve()):
            yield (
                (*where, key),
                f'"{value}" is outside the Project folder',
                f"{key} is relative to workdir and stays inside the Project folder.",
            )


def _lane(where: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    static = table.lane == "static"
    if static and table.output is None:
        yield where, "a static Resource needs output", 'Add the folder to serve: output = "public"'
    if not static and table.build is not None and table.output is None:
        yield (
            (*where, "build"),
            "a build command needs output",
            'Add the component that it leaves: output = "app.wasm"',
        )
    if not static and table.spa:
        yield (*where, "spa"), "spa is for static Resources", "Remove it."
    if table.lane != "js" and table.entry is not None:
        yield (*where, "entry"), "entry is for js Resources", "Remove it."


def _mounts(where: tuple[str, ...], name: str, table: ResourceTable, document: Document) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for pattern, target in table.mounts.items():
        key = (*where, "mounts", pattern)
        normal = pattern.rstrip("/") or "/"
        if not pattern.startswith("/"):
            yield key, f'the path "{pattern}" does not start with /', f'Write "/{pattern}".'
        elif "*" in pattern.removesuffix("/*") or "?" in pattern or "#" in pattern:
            yield key, f'"{pattern}" is not a path pattern', 'Write "/prefix/*" or an exact "/path".'
        elif normal in seen:
            yield key, f'"{pattern}" is the same path as "{seen[normal]}"', "Remove one of them."
        seen.setdefault(normal, pattern)
        if target == name:
            yield key, f"{name} is mounted to itself", "A mount leads to another Resource."
        elif target not in document.resource:
            others = [other for other in document.resource if other != name]
            yield (
                key,
                f'there is no Resource "{target}"',
                did_you_mean(target, others) or f"Add [resource.{target}].",
            )


def _cycles(document: Document) -> Iterator[Finding]:
    """Find each loop of mounts once, at the edge that closes it."""
    graph = {
        name: [t for t in table.mounts.values() if t in document.resource and t != name]
        for name, table in document.resource.items()
    }
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> Iterator[Finding]:
        trail = [*trail, name]
        for target in graph[name]:
            if target in trail:
                loop = " → ".join([*trail[trail.index(target) :], target])
                pattern = next(p for p, t in document.resource[name].mounts.items() if t == target)
                yield (
                    ("resource", name, "mounts", pattern),
                    f"the mounts go round in a circle: {loop}",
                    "Remove one mount of the circle.",
                )
            elif target not in done:
                yield from walk(target, trail)
        done.add(name)

    for name in graph:
        if name not in done:
            yield from walk(name, [])


def _egress(where: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    for entry in table.egress:
        scheme, separator, rest = entry.partition("://")
        try:
            host = parse_authority(scheme, rest.removesuffix("/")).host if separator else ""
        except ValueError:
            host = ""
        if not host or re.search(r"[/?#@\s]", rest.removesuffix("/")) or "*" in host.removeprefix("*."):
            yield (
                (*where, "egress"),
                f'"{entry}" is not an origin',
                'Write scheme and host, with a port if it is not the usual one: "https://api.example.com".',
            )


def _variables(where: tuple[str, ...], table: ResourceTable) -> Iterator[Finding]:
    for key, names in (("env", list(table.env)), ("secrets", table.secrets)):
        for name in names:
            if not _ENV_NAME.fullmatch(name):
                yield (*where, key), f'"{name}" is not a variable name', "Use letters, digits and _."
            elif RESERVED_ENV.fullmatch(name):
                yield (*where, key), f"{name} is set by the platform", "Take another name."
    for name in sorted(set(table.env) & set(table.secrets)):
        yield (*where, "secrets"), f"{name} is in env as well", "Keep it in one of them."


def js_entry(workdir: Path) -> Path | None:
    """Return the js module that a Resource without `entry` means, or `None` when there is none yet."""
    candidates = []
    try:
        package = json.loads((workdir / "package.json").read_text())
        candidates = [package[key] for key in ("module", "main") if isinstance(package.get(key), str)]
    except (OSError, ValueError, AttributeError):
        candidates = []
    candidates += ["src/index.ts", "src/index.js", "index.ts", "index.js"]
    return next((workdir / name for name in candidates if (workdir / name).is_file()), None)
