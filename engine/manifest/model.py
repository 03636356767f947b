"""Immutable, validated values of a manifest: project, resource and Mount, and the registry of lanes.

The composition root registers the lanes that a manifest may name.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from engine.artifact import ArtifactKind
from engine.manifest.schedules import Schedule

if TYPE_CHECKING:
    from engine.manifest.schema import ResourceTable

LaneTone = Literal["dim", "yellow", "teal", "orange", "violet"]
"""The hue of a lane's name on screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpec:
    """The manifest's view of a lane.

    `kind` is what the lane builds: components that run, or images of files to serve. With `needs_output`, the
    manifest must name `output`. `default_entry(workdir, root)` returns the entry module of a resource without
    `entry`, or `None`; a lane without it has no `entry` key. A build depends on the values of
    `build_variables` in `env`, and with `build_for_memory` on the memory limit.
    """

    name: str
    kind: ArtifactKind = "component"
    needs_output: bool = False
    default_entry: Callable[[Path, Path], Path | None] | None = None
    build_variables: tuple[str, ...] = ()
    build_for_memory: bool = False
    tone: LaneTone = "dim"


_registered: dict[str, LaneSpec] = {}
_UNKNOWN = LaneSpec(name="")
"""Stands for a lane that this installation does not have."""


def register_lanes(specs: Iterable[LaneSpec]) -> None:
    """Add lanes to the registry; the first one registered serves as the example in hints."""
    _registered.update((spec.name, spec) for spec in specs)


def registered_lanes() -> Mapping[str, LaneSpec]:
    """Return the registered lanes by name. Raises `RuntimeError` if there are none."""
    if not _registered:
        raise RuntimeError("no lanes are registered")
    return _registered


def build_settings(resource: "Resource") -> tuple[object, ...]:
    """Return the manifest values that a resource's artifact depends on."""
    spec = registered_lanes().get(resource.lane, _UNKNOWN)
    memory = resource.memory_limit_mb if spec.build_for_memory else None
    return (
        resource.lane,
        resource.workdir,
        resource.build,
        resource.builder,
        resource.output,
        resource.entry,
        memory,
        (resource.not_found, *resource.redirects.items()),
        *map(resource.env.get, spec.build_variables),
    )


def tone_of(lane: str) -> LaneTone:
    """Return the hue of a lane's name; `dim` if the lane is unknown to this installation."""
    return registered_lanes().get(lane, _UNKNOWN).tone


def kind_of(lane: str) -> ArtifactKind:
    """Return what a lane builds; a component if the lane is unknown to this installation."""
    return registered_lanes().get(lane, _UNKNOWN).kind


Reads = Literal["fresh", "stale"]
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
_ESCAPE = re.compile(r"%(?!2[Ff5])[0-9A-Fa-f]{2}|%2[Ff]")


def normal_path(path: str) -> str:
    """Return a URL path in the form in which equal paths are equal: decoded, except for `%2F` and `%25`."""
    if "%" not in path:
        return path
    return _ESCAPE.sub(lambda escape: unquote(escape[0], "latin-1").replace("/", "%2F"), path)


def host_label(project: str, resource: str = "") -> str:
    """Return the first part of a resource's host name, or of the project's own.

    Names have no `--` (`schema.is_name`), so no two projects and resources have the same.
    """
    return f"{resource}--{project}" if resource else project


@dataclass(frozen=True, slots=True)
class Mount:
    """Requests whose path matches `pattern` go to the resource `target`.

    `pattern` is `/<prefix>/*` (everything below `/<prefix>/` and `/<prefix>` itself) or an exact path.
    """

    pattern: str
    target: str

    @property
    def exact(self) -> bool:
        return not self.pattern.endswith("/*")

    @property
    def prefix(self) -> str:
        """The pattern without its `/*`; empty for `/*`, which matches every path."""
        return self.pattern if self.exact else self.pattern[:-2]

    def matches(self, path: str) -> bool:
        """Return whether a URL path (without query, as sent by the client) belongs to this mount."""
        path, prefix = normal_path(path), normal_path(self.prefix)
        rest = path[len(prefix) : len(prefix) + 1]
        return path.startswith(prefix) and (not rest or (rest == "/" and not self.exact))


def targets(mounts: Iterable[Mount]) -> dict[str, str]:
    return {mount.pattern: mount.target for mount in mounts}


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to a path or URL, in which `*` stands for the rest of the path."""

    to: str
    status: int = 308


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """The keys of one `[resource.<name>]` table that apply without its folder, as in a deployment."""

    name: str
    lane: str
    _: KW_ONLY
    public: bool = False
    files: str = ""
    spa: bool = False
    not_found: str = ""
    fallback: str = ""
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    redirects: Mapping[str, Redirect] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    run_limit_secs: int = 30
    memory_limit_mb: int = 128
    reads: Reads = "fresh"
    rate: str = ""
    egress: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    hsts: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource(ResourceSettings):
    """One `[resource.<name>]` table; paths are absolute and inside the project folder."""

    workdir: Path
    _: KW_ONLY
    build: str | None = None
    builder: str | None = None
    output: Path | None = None
    entry: Path | None = None

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount that a URL path belongs to: exact beats pattern, longer beats shorter."""
        matching = (mount for mount in self.mounts if mount.matches(path))
        return max(matching, key=lambda mount: (mount.exact, len(mount.prefix)), default=None)


def front_of(resources: "Mapping[str, ResourceSettings | ResourceTable]", named: str) -> str:
    """Return the name of a project's front: the named, the only public static or the only public one."""
    public = [name for name, each in resources.items() if each.public]
    static = [name for name in public if kind_of(resources[name].lane) == "image"]
    groups = ([name for name in public if name == named], static, public)
    return next((group[0] for group in groups if len(group) == 1), "")


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with one `svc.toml`; `resources` has the order of the file.

    `check` is the path of the health check before a deployment becomes live, if any. `recorded` is `None` if
    requests are not recorded in development. Otherwise it has the lower-case names of header fields whose
    values are redacted too. `otlp` is the URL of an OpenTelemetry collector, or empty, and
    `otlp_headers` has the names of secrets by header. `front_name` is the resource that the manifest names as
    front, or empty.
    """

    name: str
    root: Path
    resources: Mapping[str, Resource]
    check: str | None = None
    recorded: frozenset[str] | None = frozenset()
    _: KW_ONLY
    otlp: str = ""
    otlp_headers: Mapping[str, str] = field(default_factory=dict)
    front_name: str = ""

    @property
    def secrets(self) -> frozenset[str]:
        """Names of the secrets that its resources and its collector need."""
        names = {name for resource in self.resources.values() for name in resource.secrets}
        return frozenset(names | set(self.otlp_headers.values()))

    @property
    def front(self) -> Resource | None:
        """The resource at the project's address: the named, the only public static or the only public one."""
        return self.resources.get(front_of(self.resources, self.front_name))

    def built_before(self, name: str) -> list[str]:
        """Return the resources with a build command that fall back to a resource: it may write the entry."""
        return [each.name for each in self.resources.values() if each.build and each.fallback == name]

    @property
    def domains(self) -> dict[str, str]:
        return {domain: each.name for each in self.resources.values() for domain in each.domains}


MAX_REQUESTS = 1_000_000
MAX_SECONDS = 24 * 3600
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": MAX_SECONDS}
_RATE = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,4})([smhd])")


def parse_rate(text: str) -> tuple[int, int]:
    """Return requests and seconds of a rate such as `20/1m`. Raises `ValueError` if invalid."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    requests, seconds = int(match[1]), int(match[2]) * _UNITS[match[3]]
    if requests > MAX_REQUESTS or seconds > MAX_SECONDS:
        raise ValueError(text)
    return requests, seconds
