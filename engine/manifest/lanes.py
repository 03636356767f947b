"""Registry of the lanes that a manifest may name, filled by the composition root."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.artifact import ArtifactKind

if TYPE_CHECKING:
    from engine.manifest.model import Resource

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
