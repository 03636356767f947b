"""What a deploy would change: artifacts, mounts, access, egress, limits, and what components import."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

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
    """The Resources of one deployment, the bytes of their artifacts, and what their components import."""

    resources: Mapping[str, DeployedResource]
    sizes: Mapping[str, int]
    imports: Mapping[str, Set[str]]


def imports(artifacts: Mapping[str, Artifact]) -> dict[str, frozenset[str]]:
    """Return what each component imports (`engine.wasm.check.capabilities`); blocks while it reads them."""
    components = {name: made for name, made in artifacts.items() if isinstance(made, ComponentArtifact)}
    return {name: capabilities(made.component.read_bytes()) for name, made in components.items()}


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
            found.append(Change(name, "artifact", _artifact(before, old), _artifact(after, new)))
        if name in before.imports and name in after.imports:
            found += _imports(name, before.imports[name], after.imports[name])
    for name, old in before.resources.items():
        if name not in after.resources:
            found.append(Change(name, "resource", f"{old.lane}, {_access(old)}", ""))
    return found


def _artifact(side: Side, resource: DeployedResource) -> str:
    """Return `sha256:<digest> <bytes>`."""
    return f"sha256:{resource.artifact} {side.sizes.get(resource.name, 0)}"


def _settings(old: DeployedResource, new: DeployedResource) -> Iterator[Change]:
    shown: dict[str, Callable[[DeployedResource], str]] = {
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


def _imports(name: str, before: Set[str], after: Set[str]) -> Iterator[Change]:
    for added in sorted(after - before):
        yield Change(name, "imports", "", added, grave=True)
    for gone in sorted(before - after):
        yield Change(name, "imports", gone, "")


def _access(resource: DeployedResource) -> str:
    return "public" if resource.public else "private"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
