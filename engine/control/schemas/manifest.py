"""What the manifest's routes take and send. Owns these shapes, which /openapi.json shows."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from engine.artifact import ArtifactKind
from engine.control.schema import StrictModel
from engine.manifest.edit import AddMount, Change, ChangeMount, RemoveMount
from engine.manifest.lanes import kind_of
from engine.manifest.model import Project, Resource
from engine.manifest.problems import ManifestError

ShortText = Annotated[str, StringConstraints(max_length=2048)]
MAX_CHANGES = 200


class MountOut(StrictModel):
    """Requests whose path matches `pattern` go to the Resource `target`."""

    pattern: str
    target: str


class ResourceOut(StrictModel):
    """A Resource as the manifest says it. `env` and `secrets` are names only; values are never shown.

    `kind` is what the lane builds: a component that runs, or an image of files to serve.
    """

    name: str
    lane: str
    kind: ArtifactKind
    public: bool
    mounts: list[MountOut]
    run_limit_secs: int
    memory_limit_mb: int
    egress: list[str]
    env: list[str]
    secrets: list[str]

    @classmethod
    def from_resource(cls, resource: Resource) -> "ResourceOut":
        """Return the shape of a Resource."""
        return cls(
            name=resource.name,
            lane=resource.lane,
            kind=kind_of(resource.lane),
            public=resource.public,
            mounts=[MountOut(pattern=mount.pattern, target=mount.target) for mount in resource.mounts],
            run_limit_secs=resource.run_limit_secs,
            memory_limit_mb=resource.memory_limit_mb,
            egress=list(resource.egress),
            env=list(resource.env),
            secrets=list(resource.secrets),
        )


class MistakeOut(StrictModel):
    """What is wrong with the file now: the first mistake in it, and how many `others` there are.

    `line` counts from 1; 0 stands for the file as a whole. `key` is the key's path as TOML writes it, or
    empty.
    """

    message: str
    hint: str
    line: int
    key: str
    others: int

    @classmethod
    def from_error(cls, error: ManifestError) -> "MistakeOut":
        """Return the shape of what is wrong with a file."""
        first = error.problems[0]
        others = len(error.problems) - 1
        return cls(message=first.message, hint=first.hint, line=first.line, key=first.key, others=others)


class ManifestOut(StrictModel):
    """A Project as its manifest says it.

    `editable` is true in development, where `digest` is the sha256 of the bytes of svc.toml as it is now.
    While that is broken (`error`), the rest is what it said last without a mistake. `front` is the Resource
    at the bare address, if there is one. Resources are in the order of the file.
    """

    project: str
    editable: bool
    digest: str | None
    front: str | None
    resources: list[ResourceOut]
    error: MistakeOut | None

    @classmethod
    def from_project(
        cls, project: Project, *, digest: str | None = None, error: ManifestError | None = None
    ) -> "ManifestOut":
        """Return the shape of a Project; one with a digest is in development."""
        editable = digest is not None
        return cls(
            project=project.name,
            editable=editable,
            digest=digest,
            front=project.front.name if editable and project.front is not None else None,
            resources=[ResourceOut.from_resource(each) for each in project.resources.values()],
            error=MistakeOut.from_error(error) if error is not None else None,
        )


class AddOp(StrictModel):
    """Mount `target` at `pattern` of `resource`."""

    op: Literal["add"]
    resource: ShortText
    pattern: ShortText
    target: ShortText

    def to_change(self) -> Change:
        """Return the change."""
        return AddMount(self.resource, self.pattern, self.target)


class ChangeOp(StrictModel):
    """Have the mount `pattern` of `resource` be `to`, and lead to `target`."""

    op: Literal["change"]
    resource: ShortText
    pattern: ShortText
    to: ShortText
    target: ShortText

    def to_change(self) -> Change:
        """Return the change."""
        return ChangeMount(self.resource, self.pattern, self.to, self.target)


class RemoveOp(StrictModel):
    """Remove the mount `pattern` of `resource`."""

    op: Literal["remove"]
    resource: ShortText
    pattern: ShortText

    def to_change(self) -> Change:
        """Return the change."""
        return RemoveMount(self.resource, self.pattern)


MountOp = Annotated[AddOp | ChangeOp | RemoveOp, Field(discriminator="op")]


def op_from_change(change: Change) -> AddOp | ChangeOp | RemoveOp:
    """Return the shape of a change."""
    if isinstance(change, AddMount):
        return AddOp(op="add", resource=change.resource, pattern=change.pattern, target=change.target)
    if isinstance(change, RemoveMount):
        return RemoveOp(op="remove", resource=change.resource, pattern=change.pattern)
    return ChangeOp(
        op="change",
        resource=change.resource,
        pattern=change.pattern,
        to=change.to,
        target=change.target,
    )


class ManifestPlanRequest(StrictModel):
    """Changes, to be made one after the other."""

    changes: Annotated[list[MountOp], Field(max_length=MAX_CHANGES)]


class ManifestWriteRequest(StrictModel):
    """Changes, and the digest of the file that they were planned against."""

    changes: Annotated[list[MountOp], Field(max_length=MAX_CHANGES)]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestEditOut(StrictModel):
    """What changes do, or did: the unified diff of svc.toml, empty where nothing changes; what undoes them.

    `digest` is that of the file as it is: before a plan is written, and after it was.
    """

    diff: str
    digest: str
    inverse: list[MountOp]
