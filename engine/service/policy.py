"""Changes that a deploy makes, and the policy on new component imports."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from engine.artifact import Artifact, ComponentArtifact
from engine.bucket.protocols import Digest
from engine.deploy.deployment import DeployedResource, Deployment, DrawnMount
from engine.errors import SvcError
from engine.grant import Grant
from engine.manifest.model import Project, targets
from engine.timeline.bus import TimelineBus
from engine.timeline.record import PlatformRecord
from engine.wasm.binary.reader import read_outline
from engine.wasm.compile.component_file import read_component
from engine.wasm_binary import UnsupportedBinary

_ALLOW = "svc deploy --allow-new-capability"


class PolicyViolation(SvcError):
    """The policy rejects the deploy."""

    code = "policy"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `before` or `after` is empty for additions and removals.

    `new_capability` changes need the deployer's confirmation: a component imports what the live one does not,
    or a resource answers at a domain that the live project does not have.
    """

    resource: str
    field: str
    before: str
    after: str
    new_capability: bool = False

    @property
    def capability(self) -> str:
        return f"now {'answers at' if self.field == 'domain' else 'imports'} {self.after}"


def capabilities(component: bytes) -> frozenset[str]:
    """Return the packages whose interfaces a component imports: `wasi:http`, `wasi:sockets`.

    Imports added by svc's own lanes (`svc:...`) grant nothing extra and are omitted. A component with an
    unsupported outline has the single capability `unknown`.
    """
    try:
        packages = {name.partition("/")[0] for name in read_outline(component).imports}
        return frozenset(package for package in packages if not package.startswith("svc:"))
    except UnsupportedBinary:
        return frozenset({"unknown"})


def component_imports(artifact: Artifact) -> frozenset[str] | None:
    """Return the imports of an artifact's component (`capabilities`), `None` without one.

    Blocks while it reads. Raises `ComponentRejected`.
    """
    return (
        capabilities(read_component(artifact.component, artifact.digest))
        if isinstance(artifact, ComponentArtifact)
        else None
    )


def changes(
    live: Deployment | None,
    planned: Deployment | Project,
    after: Mapping[str, DeployedResource],
    sizes: Mapping[Digest, int],
) -> list[Change]:
    """Return all differences, in the order of the new manifest, removals last.

    `after` are the planned resources, `sizes` the known sizes of packages in bytes.
    """
    before = live.resources if live is not None else {}
    was = _project_settings(live) if live is not None else {}
    keys = _project_settings(planned).items()
    result = [Change("", key, was.get(key, ""), value) for key, value in keys if was.get(key, "") != value]
    had = {domain for each in before.values() for domain in each.domains}
    for name, new in after.items():
        old = before.get(name)
        if old is None:
            result.append(Change(name, "resource", "", f"{new.lane}, {_shown('access', new.public)}"))
            result += _domains(name, (), new.domains, had, live=live is not None)
            continue
        result += _domains(name, old.domains, new.domains, had, live=True)
        old_settings = _settings(old)
        for field, values in _settings(new).items():
            old_values = old_settings[field]
            for key in sorted(old_values.keys() | values.keys()):
                if old_values.get(key) != values.get(key):
                    named = f"{field} {key}" if key else field
                    result.append(Change(name, named, old_values.get(key, ""), values.get(key, "")))
        if old.artifact != new.artifact or old.package != new.package:
            old_artifact, new_artifact = (
                f"sha256:{each.artifact} {sizes.get(each.package, 0)}" for each in (old, new)
            )
            result.append(Change(name, "artifact", old_artifact, new_artifact))
        if old.imports is not None and new.imports is not None:
            had_imports, has_imports = set(old.imports), set(new.imports)
            added, removed = sorted(has_imports - had_imports), sorted(had_imports - has_imports)
            result += [Change(name, "imports", "", each, new_capability=True) for each in added]
            result += [Change(name, "imports", each, "") for each in removed]
    for name, old in before.items():
        if name not in after:
            result.append(Change(name, "resource", f"{old.lane}, {_shown('access', old.public)}", ""))
    return result


def _project_settings(project: Deployment | Project) -> dict[str, str]:
    headers = ", ".join(f"{name}: {secret}" for name, secret in sorted(project.otlp_headers.items()))
    check = project.check or ""
    return {"front": project.front_name, "check": check, "otlp": project.otlp, "otlp_headers": headers}


def enforce_policy(
    differences: Iterable[Change], *, allow: bool, timeline: TimelineBus | None = None
) -> None:
    """Raise `PolicyViolation` for imports that the live component does not have, and record them."""
    blocked = [change for change in differences if change.new_capability]
    if blocked and not allow:
        for change in blocked:
            text = f"deploy blocked: {change.resource} {change.capability}; to allow it: {_ALLOW}"
            if timeline is not None:
                _record(timeline, change.resource, text, Grant("import", _ALLOW))
        added = "; ".join(f"{change.resource} {change.capability}" for change in blocked)
        source = (
            "svc.toml" if all(each.field == "domain" for each in blocked) else "which dependency added them"
        )
        hint = f"Check {source}. If they are expected, run {_ALLOW}."
        raise PolicyViolation(f"deploy blocked by new capabilities: {added}", hint)


MOUNTS_HINT = "Write them to svc.toml with `svc mount pull`, or drop them: svc deploy --discard-mounts"


def require_owner(project: str, domains: Iterable[str]) -> None:
    """Raise `SvcError` for new domains, which only an owner of a project can add."""
    if added := ", ".join(domains):
        hint = f"Ask an owner of {project} to deploy them."
        raise SvcError(f"new domains of {project} require the role owner: {added}", hint, code="forbidden")


def enforce_mounts(drifted: Iterable[DrawnMount], *, discard: bool) -> None:
    """Raise `PolicyViolation` for mounts drawn in the Console that the deploy would undo."""
    lost = [f"{each.resource}: {each.drift}" for each in drifted]
    if lost and not discard:
        raise PolicyViolation(
            f"deploy blocked by mounts drawn in the Console: {'; '.join(lost)}", MOUNTS_HINT
        )


_ATTRIBUTES = {"access": "public"}
_FIELDS: tuple[str, ...] = ("lane", "access", "files", "spa", "egress", "run_limit_secs", "memory_limit_mb")
_FIELDS += ("reads", "rate", "not_found", "fallback", "hsts", "secrets")
"""Settings of a resource that a change names as a whole."""


def _shown(field: str, value: object) -> str:
    if field == "access":
        return "public" if value else "private"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _settings(resource: DeployedResource) -> dict[str, dict[str, str]]:
    """Return the texts of settings by field, those of fields with several entries by their keys."""
    return {
        **{field: {"": _shown(field, getattr(resource, _ATTRIBUTES.get(field, field)))} for field in _FIELDS},
        "mount": targets(resource.mounts),
        "env": dict(resource.env),
        "headers": {
            pattern: "; ".join(f"{name}: {value}" for name, value in fields.items())
            for pattern, fields in resource.headers.items()
        },
        "redirect": {pattern: f"{each.to} {each.status}" for pattern, each in resource.redirects.items()},
        "schedule": {
            each.path: f"{each.times}, overlap {each.overlap}{', catch up' if each.catch_up else ''}"
            for each in resource.schedules
        },
    }


def _domains(
    name: str, before: Sequence[str], after: Sequence[str], had: Set[str], *, live: bool
) -> Iterator[Change]:
    for added in (each for each in after if each not in before):
        yield Change(name, "domain", "", added, new_capability=live and added not in had)
    for removed in (each for each in before if each not in after):
        yield Change(name, "domain", removed, "")
    if set(before) == set(after) and tuple(before) != tuple(after):
        yield Change(name, "domains", ", ".join(before), ", ".join(after))


def require_secrets(project: Project, secrets: Collection[str], timeline: TimelineBus) -> None:
    """Raise `PolicyViolation` for a secret that a resource or `otlp_headers` needs, and record it.

    `secrets` are the names with a value.
    """
    needs = [
        (name, f"resource {name}", secret)
        for name, each in project.resources.items()
        for secret in each.secrets
    ]
    needs += [("", f"the header {name} of otlp_headers", each) for name, each in project.otlp_headers.items()]
    for resource, needing, secret in needs:
        if secret not in secrets:
            message = f"{needing} needs the secret {secret}, which has no value"
            command = f"svc secret set {secret}"
            text = f"deploy blocked: {message}; give it one: {command}"
            _record(timeline, resource, text, Grant("secret", command))
            raise PolicyViolation(message, f"Give it one: {command}")


def _record(timeline: TimelineBus, resource: str, text: str, grant: Grant) -> None:
    timeline.append(PlatformRecord(time.time_ns(), resource, "WARN", text, grant=grant))
