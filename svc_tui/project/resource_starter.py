"""New resources in an existing project: sources from a starter, the edit of `svc.toml`, and a table."""

import re
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from engine.errors import InvalidUsage, SvcError
from engine.files.temporary import temporary_folder
from engine.manifest import MANIFEST, edit
from engine.manifest.load import read
from engine.manifest.model import Mount, Project, kind_of
from engine.manifest.path_rules import pattern_problem
from engine.manifest.problems import alternatives, did_you_mean
from engine.manifest.schema import NAME_RULE, is_name

_FOLDER = Path(__file__).resolve().parents[1] / "starters"
_LANES = _FOLDER.parents[1] / "lanes"
_TABLE = re.compile(r"(?!sqlite_)[a-z][a-z0-9_]{0,62}")
_PREFIX = re.compile(r"[A-Za-z0-9/\-._~]*")
"""Paths that need no escapes in the sources of any lane."""
_KIND = "(?:table|view|index)"
_NAMED = r"(?:main \. )?{0}(?: |$)"
_CREATED = rf"(?:create (?:unique |virtual )?{_KIND}(?: if not exists)?|rename to) {_NAMED}"
_REMOVED = rf"drop {_KIND}(?: if exists)? {_NAMED}|alter table {_NAMED}rename to "


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The files of a new resource of a lane, or of a framework, as `starters.toml` describes them."""

    lane: str
    source: str = ""
    build_files: tuple[str, ...] = ()
    name: tuple[str, str] = ("", "")
    editor_files: tuple[str, ...] = ()
    framework: tuple[str, ...] = ()
    keys: Mapping[str, str | bool] = field(default_factory=dict)
    server: Mapping[str, str | bool] = field(default_factory=dict)

    def text(self, *, table: bool) -> Path:
        return _FOLDER / f"{self.lane}{'-table' if table else ''}{Path(self.source).suffix}"

    @property
    def serves_files(self) -> bool:
        """True if the lane serves the sources themselves."""
        return kind_of(self.lane) == "image"


_DOCUMENT = tomllib.loads((_FOLDER / "starters.toml").read_text(encoding="utf-8"))
REFUSED: Mapping[str, Mapping[str, str]] = _DOCUMENT.pop("refused")
"""Reason and remedy for frameworks that cannot run."""
STARTERS = {name: Starter(**{"lane": name, **keys}) for name, keys in _DOCUMENT.items()}
"""The starters: one for each lane, then one for each framework."""
FRAMEWORKS = tuple(name for name, starter in STARTERS.items() if starter.framework)


@dataclass(frozen=True, slots=True)
class NewResource:
    """A resource to add.

    `pattern` is its mount on the resource `parent`; without a pattern, the resource is public. `table` is the
    name of a table to create with it, or empty.
    """

    name: str
    starter: Starter
    _: KW_ONLY
    pattern: str
    parent: str
    table: str = ""

    @property
    def prefix(self) -> str:
        """The part of its paths that the mount adds."""
        return Mount(self.pattern, self.name).prefix if self.pattern else ""

    @property
    def path(self) -> str:
        """A path that the starter answers."""
        if self.starter.serves_files:
            return f"{self.prefix}/"
        return f"{self.prefix}/{self.table or 'hello'}"


@dataclass(frozen=True, slots=True)
class Addition:
    """The edit of `svc.toml` and the files of a new resource; `files` maps their paths to their texts."""

    resource: NewResource
    manifest: edit.ManifestEdit
    files: Mapping[Path, str]
    migration: Path | None


def new_resource(
    project: Project, lane: str, name: str, *, mount: str, on: str, public: bool, table: str
) -> NewResource:
    """Return the resource for these arguments; the default mount is `/NAME/*` on the front.

    Raises `InvalidUsage`.
    """
    if (refused := REFUSED.get(lane)) is not None:
        raise InvalidUsage(refused["reason"], refused["remedy"])
    starter = STARTERS.get(lane)
    if starter is None:
        raise InvalidUsage(f'unknown starter "{lane}"', did_you_mean(lane, list(STARTERS)))
    if not is_name(name):
        raise InvalidUsage(f'"{name}" is not a valid resource name', NAME_RULE)
    if table and not _TABLE.fullmatch(table):
        hint = "Use a-z, 0-9 and _, a letter first, not sqlite_."
        raise InvalidUsage(f'"{table}" is not a valid table name', hint)
    if starter.framework:
        public, table = True, table or name.replace("-", "_")
    elif table and not starter.text(table=True).is_file():
        choice = alternatives([each.lane for each in STARTERS.values() if each.text(table=True).is_file()])
        raise InvalidUsage(f"a {lane} resource has no table", f"Choose {choice}, or leave out --table.")
    if public:
        if mount or on:
            raise InvalidUsage("a public resource has its own address", "Leave out --mount and --on.")
        return NewResource(name, starter, pattern="", parent="", table=table)
    if on and on not in project.resources:
        raise InvalidUsage(f'unknown resource "{on}"', did_you_mean(on, list(project.resources)))
    parent = on or (project.front.name if project.front is not None else "")
    if not parent:
        hint = "Pass --public, or --on RESOURCE."
        raise InvalidUsage(f"the project has no front to mount {name} on", hint)
    pattern = mount or f"/{name}/*"
    if (problem := pattern_problem(pattern)) is not None:
        raise InvalidUsage(*problem)
    if not _PREFIX.fullmatch(pattern.removesuffix("/*")):
        hint = "Use letters, digits and /-._~."
        raise InvalidUsage(f"the sources of a starter cannot contain {pattern}", hint)
    if not pattern.endswith("/*"):
        raise InvalidUsage(f"{pattern} is one exact path", f"Mount a new resource below a path: {pattern}/*")
    return NewResource(name, starter, pattern=pattern, parent=parent, table=table)


def plan(project: Project, resource: NewResource) -> Addition:
    """Return everything that adding a resource writes. Writes nothing. Raises `SvcError`."""
    folder = project.root / resource.name
    if folder.is_symlink() or folder.exists():
        raise SvcError(f"{resource.name}/ exists already", "Choose another name.", code="conflict")
    mount = edit.AddMount(resource.parent, resource.pattern, resource.name) if resource.pattern else None
    return _addition(resource, edit.plan_resources(project.root, _tables(resource), mount))


def start(root: Path, framework: str) -> None:
    """Add the resources of a framework to a new project, whose manifest has no resource yet.

    Raises `SvcError`.
    """
    resource = NewResource("web", STARTERS[framework], pattern="", parent="", table="web")
    before = read(root / MANIFEST)
    write(_addition(resource, edit.ManifestEdit(root, before, edit.with_tables(before, _tables(resource)))))


def _tables(resource: NewResource) -> dict[str, dict[str, str | bool]]:
    """Return the tables of the manifest for a resource, by their names."""
    starter = resource.starter
    keys: dict[str, str | bool] = {"lane": starter.lane}
    keys |= {} if resource.pattern else {"public": True}
    keys["output" if starter.serves_files and not starter.framework else "workdir"] = resource.name
    tables = {resource.name: keys}
    if starter.framework:
        server = f"{resource.name}-server"
        keys |= {**starter.keys, "fallback": server}
        tables[server] = {**starter.server, "workdir": resource.name}
    return tables


def _addition(resource: NewResource, manifest: edit.ManifestEdit) -> Addition:
    starter, folder = resource.starter, manifest.root / resource.name
    migration = _migration(manifest.root, resource.table) if resource.table else None
    if starter.framework:
        sources = {
            path.relative_to(_FOLDER / part): path
            for part in starter.framework
            for path in sorted((_FOLDER / part).rglob("*"))
            if path.is_file()
        }
    else:
        below = resource.prefix.lstrip("/") if starter.serves_files else ""
        sources = {Path(below, starter.source): starter.text(table=bool(resource.table))}
    files = {folder / name: _filled(path, resource) for name, path in sources.items()}
    if migration is not None:
        files[migration] = _filled(_FOLDER / "table.sql", resource)
    return Addition(resource, manifest, files, migration)


def write(addition: Addition) -> None:
    """Write the sources, then the migration, then `svc.toml`. If a step fails, remove what was written.

    Raises `SvcError`.
    """
    resource, root = addition.resource, addition.manifest.root
    folder = root / resource.name
    created: list[Path] = []
    try:
        with temporary_folder(".svc-add-", root) as temporary:
            sources = temporary / resource.name
            sources.mkdir()
            _copy_build_files(resource, sources)
            for path, text in addition.files.items():
                if path.is_relative_to(folder):
                    target = sources / path.relative_to(folder)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text, encoding="utf-8")
            sources.rename(folder)
        created.append(folder)
        if (migration := addition.migration) is not None:
            migration.parent.mkdir(exist_ok=True)
            with migration.open("x", encoding="utf-8") as file:
                created.append(migration)
                file.write(addition.files[migration])
        edit.write(addition.manifest)
    except BaseException as error:
        for path in reversed(created):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if isinstance(error, OSError):
            hint = "Check the permissions of the project's folder."
            raise SvcError(f"cannot add {resource.name}: {error.strerror}", hint) from error
        raise


def _copy_build_files(resource: NewResource, target: Path) -> None:
    starter = resource.starter
    old, new = starter.name
    for name in starter.build_files:
        source = _FOLDER.with_name("templates") / starter.lane / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("target")
            shutil.copytree(source, target / name, ignore=ignored, copy_function=shutil.copyfile)
            continue
        text = source.read_text(encoding="utf-8")
        (target / name).write_text(text.replace(old, new.format(resource.name), 1) if old else text)
    for name in starter.editor_files:
        shutil.copyfile(_LANES / name, target / Path(name).name)


def _filled(file: Path, resource: NewResource) -> str:
    text = file.read_text(encoding="utf-8").replace("__PREFIX__", resource.prefix)
    return text.replace("__NAME__", resource.name).replace("__TABLE__", resource.table)


def _migration(root: Path, table: str) -> Path:
    """Return the path of a migration that creates a table, after all others. Raises `SvcError`."""
    # These imports take 100 ms.
    from doors.tables.migrations import find, next_name
    from doors.tables.sqlite.tokens import tokens

    creator, last = "", ""  # The last migration that leaves a table, view or index with this name.
    for migration in find(root):
        last = migration.name
        words = " ".join(token.value.lower() for token in tokens(migration.sql) if token.kind != "string")
        for match in re.finditer(f"(?P<created>{_CREATED})|{_REMOVED}".format(table), words):
            creator = last if match["created"] else ""
    if creator:
        hint = f"Choose another name, or add the resource without --table and use {table} in its sources."
        raise SvcError(f"{creator} creates {table} already", hint, code="conflict")
    return root / next_name(last, table)
