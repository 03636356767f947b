"""Deployment records: immutable values, their JSON form in a bucket, and which of a project is live.

A record and its packages suffice to serve the project again. It contains no path of the deploying machine
and no value of a secret. `deployments/<project>/<id>` is a record, written once. `live/<project>` has the
activations of a project, the live one last. It changes by compare-and-set, so an activation is atomic, and
one based on an outdated revision is a conflict.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from pydantic import TypeAdapter

from engine.bucket.protocols import BadName, Bucket, Digest, StaleRevision, VersionedValue, as_digest
from engine.deploy import package_store
from engine.errors import SvcError
from engine.manifest.model import Project, Resource, ResourceSettings, targets

VERSION = 1
PROJECT_SETTINGS = ("otlp", "otlp_headers", "check", "front_name")
"""Settings that a project and its deployments have alike."""


class RecordError(SvcError):
    """A record in the bucket cannot be read."""

    code = "record"


@dataclass(frozen=True, slots=True)
class DeployedResource(ResourceSettings):
    """One deployed resource: its build result, and its part of the manifest.

    `package` is the package's name in the bucket, `artifact` the sha256 that `svc build` prints. `imports`
    are the sorted capabilities of its component (`service.policy.capabilities`); `None` without a component,
    and in records of an older svc.
    """

    _: KW_ONLY
    package: Digest
    artifact: Digest
    imports: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, resource: Resource, package: Digest, artifact: Digest, imports: Iterable[str] | None = None
    ) -> "DeployedResource":
        """Return the record of a built and stored resource."""
        settings = {name: getattr(resource, name) for name in ResourceSettings.__slots__}
        sorted_imports = tuple(sorted(imports)) if imports is not None else None
        return cls(package=package, artifact=artifact, imports=sorted_imports, **settings)

    def resource(self, folder: Path) -> Resource:
        """Return the resource as the engine serves it, with its artifact unpacked in `folder`."""
        return Resource(workdir=folder, **{name: getattr(self, name) for name in ResourceSettings.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMount:
    """A mount changed in the Console by a user, and the id of the deployment that did it.

    `target` is empty if the mount was removed. `before` has its targets since the last deploy of a manifest.
    """

    resource: str
    pattern: str
    target: str
    before: Sequence[str]
    by: str
    deployment: str

    @property
    def text(self) -> str:
        """The change as the message of its deployment."""
        place = f"{self.resource}:{self.pattern}"
        return f"mount {place} → {self.target}" if self.target else f"unmount {place}"

    @property
    def drift(self) -> str:
        """The difference of a manifest without this change."""
        if self.target:
            mount, state = f"{self.pattern} → {self.target}, drawn", "is not in svc.toml"
        else:
            mount, state = f"{self.pattern}, removed", "is still in svc.toml"
        return f"{mount} by {self.by} in {self.deployment}, {state}"


def drift(drawn: Iterable[DrawnMount], project: Project) -> list[DrawnMount]:
    """Return the drawn mounts that differ from those of a manifest."""
    mounts = {name: targets(each.mounts) for name, each in project.resources.items()}
    return [each for each in drawn if mounts.get(each.resource, {}).get(each.pattern, "") != each.target]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a project. `resources` has the order of the manifest.

    `id` sorts by time; `created_ns` counts from the Unix epoch. `by` is the user, `commit` the version of
    the sources, `message` the user's text; each is empty if unknown. `otlp` and
    `otlp_headers` are the project's collector, `check` is the path of its health check, `front_name` is the
    front that its manifest names. `drawn` are the changes in the Console since the last deploy of a manifest.
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
    check: str | None = None
    drawn: tuple[DrawnMount, ...] = ()
    front_name: str = ""

    def served(self, folder: Path) -> Project:
        """Return the project as the engine serves it, its packages unpacked below `folder`."""
        resources = {name: part.resource(folder / part.package) for name, part in self.resources.items()}
        settings: dict[str, Any] = {name: getattr(self, name) for name in PROJECT_SETTINGS}
        return Project(self.project, folder, resources, **settings)

    def redrawn(self, project: Project, by: str, now_ns: int) -> "Deployment":
        """Return a deployment with the mounts of `project`, drawn by a user, and the same packages."""
        id_ = new_deployment_id(now_ns)
        drawn = {(each.resource, each.pattern): each for each in self.drawn}
        resources = {}
        for name, part in self.resources.items():
            resources[name] = replace(part, mounts=project.resources[name].mounts)
            old, new = targets(part.mounts), targets(resources[name].mounts)
            for pattern in (each for each in old | new if old.get(each) != new.get(each)):
                earlier = drawn.pop((name, pattern), None)
                before = dict.fromkeys([*(earlier.before if earlier else ()), old.get(pattern, "")])
                target = new.get(pattern, "")
                drawn[name, pattern] = DrawnMount(
                    resource=name, pattern=pattern, target=target, before=tuple(before), by=by, deployment=id_
                )
        texts = [each.text for each in drawn.values() if each.deployment == id_]
        return replace(
            self,
            id=id_,
            created_ns=now_ns,
            by=by,
            message=f"{'; '.join(texts)} (Console)",
            resources=resources,
            drawn=tuple(drawn.values()),
        )

    def encode(self) -> bytes:
        """Return the JSON form."""
        record = {"version": VERSION} | _FORM.dump_python(self, mode="json")
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


_FORM = TypeAdapter(Deployment)
_FIRST_KEYS = {"public", "spa", "mounts", "run_limit_secs", "memory_limit_mb", "egress", "env", "secrets"}
"""Settings of a resource in records of every svc. Older ones lack others."""


def decode(record: bytes) -> Deployment:
    """Parse a record. Raises `RecordError`."""
    try:
        document = json.loads(record)
        version = document["version"]
        if isinstance(version, int) and version > VERSION:
            raise RecordError("the deployment was recorded by a newer svc", "Update svc.")
        if version != VERSION:
            raise ValueError(version)
        deployment = _FORM.validate_json(record, strict=True)
        for name, part in deployment.resources.items():
            as_digest(part.package)
            as_digest(part.artifact)
            if name != part.name or _FIRST_KEYS - document["resources"][name].keys():
                raise ValueError(name)
    except (ValueError, KeyError, TypeError, RecursionError, BadName) as error:
        raise RecordError("the deployment record is corrupt", "Deploy the project again.") from error
    return deployment


def new_deployment_id(now_ns: int) -> str:
    """Return a deployment id: the UTC time, so that ids sort by time, and random digits."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ns // 10**9))
    return f"{moment}-{now_ns // 10**6 % 1000:03}{secrets.token_hex(2)}"


RECORDS, LIVE = "deployments/", "live/"
MAX_ACTIVATIONS = 100
MAX_DEPLOYMENTS = 20


class DeploymentError(SvcError):
    """A deployment does not exist, or its id is taken."""

    code = "deployment"


@dataclass(frozen=True, slots=True)
class Activation:
    """A deployment became live at a time (Unix epoch, ns), by a user, with an optional message."""

    deployment: str
    at_ns: int
    by: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """The live deployment of a project: the last of `activations`. A new one must name this `revision`."""

    project: str
    activations: tuple[Activation, ...]
    revision: int

    @property
    def deployment(self) -> str:
        return self.activations[-1].deployment


_ACTIVATIONS = TypeAdapter(tuple[Activation, ...])


class DeploymentHistory:
    """The deployments of a bucket. Methods raise `BucketError` too."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._values = bucket.kv

    async def add(self, deployment: Deployment) -> None:
        """Record a deployment whose packages are stored. Raises `DeploymentError` if its id is taken."""
        key = _record(deployment.project, deployment.id)
        if isinstance(await self._values.cas(key, deployment.encode(), None), StaleRevision):
            raise DeploymentError(f"deployment {deployment.id} of {deployment.project} already exists")

    async def get(self, project: str, id_: str) -> Deployment:
        """Return a deployment. Raises `DeploymentError` and `RecordError`."""
        cell = await self._values.get(_record(project, id_))
        if cell is None:
            raise DeploymentError(f"{project} has no deployment {id_}", "List them with `svc deployments`.")
        return decode(cell.value)

    async def deployments(self, project: str) -> list[Deployment]:
        """Return a project's deployments, the newest first. Raises `RecordError`."""
        return [decode(cell.value) for cell in reversed(await self._values.list(_record(project, "")))]

    async def all(self) -> list[Deployment]:
        """Return the deployments of all projects. Raises `RecordError`."""
        return [decode(cell.value) for cell in await self._values.list(RECORDS)]

    async def live(self, project: str) -> Live | None:
        """Return the live deployment of a project."""
        cell = await self._values.get(LIVE + project)
        return _live(cell) if cell is not None else None

    async def activate(
        self, project: str, id_: str, *, at_ns: int, by: str, revision: int | None, message: str = ""
    ) -> Live | StaleRevision:
        """Make a deployment live by compare-and-set; return a conflict unless `revision` is the live one.

        `revision` is `None` if no deployment is live yet. Raises `DeploymentError`, and as
        `package_store.touch` does.
        """
        deployment = await self.get(project, id_)
        for part in deployment.resources.values():
            await package_store.touch(self._bucket.blobs, part.package)
        before = await self.live(project)
        earlier = before.activations if before is not None else ()
        activations = (*earlier, Activation(id_, at_ns, by, message))[-MAX_ACTIVATIONS:]
        answer = await self._values.cas(LIVE + project, _ACTIVATIONS.dump_json(activations), revision)
        if isinstance(answer, StaleRevision):
            return answer
        # Its record may have been removed meanwhile as not live. Its blobs still exist.
        await self._values.cas(_record(project, id_), deployment.encode(), None)
        return Live(project, activations, answer)

    async def all_live(self, warn: Callable[[RecordError], None]) -> list[Live]:
        """Return the live deployment of each project. Calls `warn` for corrupt cells, and omits them."""
        all_live = []
        for cell in await self._values.list(LIVE):
            try:
                all_live.append(_live(cell))
            except RecordError as error:
                warn(error)
        return all_live

    async def forget_old(self, project: str, limit: int = MAX_DEPLOYMENTS) -> None:
        """Remove all but the newest, the last activated and the live records."""
        cells = await self._values.list(_record(project, ""))
        live = await self.live(project)
        activations = live.activations if live is not None else ()
        # Ids sort by the clock, which may have been wrong.
        recent = {each.deployment for each in activations[max(0, len(activations) - limit) :]}
        for cell in cells[: max(0, len(cells) - limit)]:
            id_ = cell.key.rpartition("/")[2]
            if id_ in recent or (live is not None and id_ == live.deployment):
                continue
            if isinstance(await self._values.cas(cell.key, None, cell.revision), StaleRevision):
                continue
            # It may have become live meanwhile: the later of this and `activate` restores it.
            live = await self.live(project)
            if live is not None and id_ == live.deployment:
                await self._values.cas(cell.key, cell.value, None)


def _record(project: str, id_: str) -> str:
    return f"{RECORDS}{project}/{id_}"


def _live(cell: VersionedValue) -> Live:
    try:
        activations = _ACTIVATIONS.validate_json(cell.value, strict=True)
        if not activations:
            raise ValueError("none")
        return Live(cell.key.removeprefix(LIVE), activations, cell.revision)
    except ValueError as error:
        message = f"the record of what is live in {cell.key.removeprefix(LIVE)} is corrupt"
        raise RecordError(message, "Restore control.db from a backup.") from error


class RevisionConflict(SvcError):
    """Another change went live since the client read the revision; this change was not applied."""

    code = "conflict"


def revision_conflict(project: str, live: Live | None) -> RevisionConflict:
    """Return the error for a deploy that is based on another version than the live one."""
    if live is None:
        hint = "Look again with --plan, and deploy again."
        return RevisionConflict(f"{project} is not live any more", hint)
    activation = live.activations[-1]
    when = time.strftime("%H:%M:%S", time.gmtime(activation.at_ns // 10**9))
    message = f" ({shorten(activation.message, 100)})" if activation.message else ""
    return RevisionConflict(
        f"{activation.by or 'another user'} deployed {activation.deployment} of {project} at {when} UTC"
        f"{message}, after this change was planned; nothing was changed",
        "Run `svc deploy --plan` to see the changes, then deploy again.",
    )
