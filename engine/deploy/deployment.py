"""Deployment records: immutable values, and their JSON form in a bucket.

A record and its packages suffice to serve the project again. It contains no path of the deploying machine
and no value of a secret.
"""

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path

from pydantic import TypeAdapter

from engine.bucket.errors import BadName
from engine.bucket.protocols import Digest, as_digest
from engine.errors import SvcError
from engine.manifest.model import Mount, Project, Resource

VERSION = 1


class RecordError(SvcError):
    """A record in the bucket cannot be read."""

    code = "record"


@dataclass(frozen=True, slots=True)
class DeployedResource:
    """One deployed resource: its build result, and its part of the manifest
    (`engine.manifest.model.Resource`).

    `package` is the package's name in the bucket, `artifact` the sha256 that `svc build` prints. `imports`
    are the sorted capabilities of its component (`service.policy.capabilities`); `None` without a component,
    and in records of an older svc.
    """

    name: str
    lane: str
    _: KW_ONLY
    package: Digest
    artifact: Digest
    public: bool
    spa: bool
    mounts: tuple[Mount, ...]
    run_limit_secs: int
    memory_limit_mb: int
    egress: tuple[str, ...]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    imports: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, resource: Resource, package: Digest, artifact: Digest, imports: Iterable[str] | None = None
    ) -> "DeployedResource":
        """Return the record of a built and stored resource."""
        settings = {name: getattr(resource, name) for name in _FROM_MANIFEST}
        sorted_imports = tuple(sorted(imports)) if imports is not None else None
        return cls(package=package, artifact=artifact, imports=sorted_imports, **settings)

    def resource(self, folder: Path) -> Resource:
        """Return the resource as the engine serves it, with its artifact unpacked in `folder`."""
        return Resource(workdir=folder, **{name: getattr(self, name) for name in _FROM_MANIFEST})


_FROM_MANIFEST = [
    field.name for field in fields(DeployedResource) if field.name not in {"package", "artifact", "imports"}
]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a project. `resources` has the order of the manifest.

    `id` sorts by time; `created_ns` counts from the Unix epoch. `by` is the user, `commit` the version of
    the sources, `message` the user's text; each is empty if unknown. `otlp` and
    `otlp_headers` are the project's collector.
    """

    id: str
    project: str
    _: KW_ONLY
    created_ns: int
    by: str
    commit: str
    message: str
    resources: Mapping[str, DeployedResource]
    otlp: str = ""
    otlp_headers: Mapping[str, str] = field(default_factory=dict)

    def served(self, folder: Path) -> Project:
        """Return the project as the engine serves it, its packages unpacked below `folder`."""
        resources = {name: part.resource(folder / part.package) for name, part in self.resources.items()}
        return Project(self.project, folder, resources, otlp=self.otlp, otlp_headers=dict(self.otlp_headers))

    def encode(self) -> bytes:
        """Return the JSON form."""
        record = {"version": VERSION} | _FORM.dump_python(self, mode="json")
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


_FORM = TypeAdapter(Deployment)


def decode(record: bytes) -> Deployment:
    """Parse a record. Raises `RecordError`."""
    try:
        version = json.loads(record)["version"]
        if isinstance(version, int) and version > VERSION:
            raise RecordError("the deployment was recorded by a newer svc", "Update svc.")
        if version != VERSION:
            raise ValueError(version)
        deployment = _FORM.validate_json(record, strict=True)
        for name, part in deployment.resources.items():
            as_digest(part.package)
            as_digest(part.artifact)
            if name != part.name:
                raise ValueError(name)
    except (ValueError, KeyError, TypeError, RecursionError, BadName) as error:
        raise RecordError("the deployment record is corrupt", "Deploy the project again.") from error
    return deployment


def new_deployment_id(now_ns: int) -> str:
    """Return a deployment id: the UTC time, so that ids sort by time, and random digits."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ns // 10**9))
    return f"{moment}-{now_ns // 10**6 % 1000:03}{secrets.token_hex(2)}"
