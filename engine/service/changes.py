"""What a deploy would change: artifacts, mounts, access, egress, limits, and what components import."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.artifact import Artifact, ComponentArtifact
from engine.deploy.records import DeployedResource
from engine.wasm.check import capabilities


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `before` or `after` is empty where there was or will be nothing.

    `grave` tells what needs the deployer's word: a component that imports what the live one does not.
    """

    resource: str
    what: str
    before: str
    after: str
    grave: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """The Resources of one deployment, with their artifacts on this machine."""

    resources: Mapping[str, DeployedResource]
    artifacts: Mapping[str, Artifact]


def changes(before: Side, after: Side) -> list[Change]:
    """Return every difference, in the order of the new manifest; what goes comes last."""
    found: list[Change] = []
    for name, new in after.resources.items():
        old = before.resources.get(name)
        if old is None:
            found.append(Change(name, "resource", "", f"{new.lane}, {_access(new)}"))
            continue
        found += _settings(old, new)
        if old.artifact != new.artifact or old.package != new.package:
            found.append(Change(name, "artifact", f"sha256:{old.artifact}", f"sha256:{new.artifact}"))
            found += _imports(name, before.artifacts.get(name), after.artifacts.get(name))
    for name, old in before.resources.items():
        if name not in after.resources:
            found.append(Change(name, "resource", f"{old.lane}, {_access(old)}", ""))
    return found


def _settings(old: DeployedResource, new: DeployedResource) -> Iterator[Change]:
    shown = {
        "lane": lambda r: r.lane,
        "access": _access,
        "spa": lambda r: _yes(r.spa),
        "mounts": lambda r: ", ".join(f"{mount.pattern} → {mount.target}" for mount in r.mounts),
        "egress": lambda r: ", ".join(r.egress),
        "run_limit_secs": lambda r: str(r.run_limit_secs),
        "memory_limit_mb": lambda r: str(r.memory_limit_mb),
        "secrets": lambda r: ", ".join(r.secrets),
    }
    for what, show in shown.items():
        before, after = show(old), show(new)
        if before != after:
            yield Change(new.name, what, before, after)
    for key in sorted(old.env.keys() | new.env.keys()):
        if old.env.get(key) != new.env.get(key):
            yield Change(new.name, f"env {key}", old.env.get(key, ""), new.env.get(key, ""))


def _imports(name: str, old: Artifact | None, new: Artifact | None) -> Iterator[Change]:
    if isinstance(old, ComponentArtifact) and isinstance(new, ComponentArtifact):
        before, after = _capabilities(old.component), _capabilities(new.component)
        for added in sorted(after - before):
            yield Change(name, "imports", "", added, grave=True)
        for gone in sorted(before - after):
            yield Change(name, "imports", gone, "")


def _capabilities(component: Path) -> frozenset[str]:
    return capabilities(component.read_bytes())


def _access(resource: Any) -> str:
    return "public" if resource.public else "private"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
