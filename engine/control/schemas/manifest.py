"""What the manifest's routes take and send. Owns these shapes, which /openapi.json shows."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from engine.artifact import ArtifactKind
from engine.control.schema import Shape
from engine.manifest.edit import AddMount, Change, ChangeMount, RemoveMount
from engine.manifest.lanes import kind_of
from engine.manifest.model import Project, Resource
from engine.manifest.problems import ManifestError

Word = Annotated[str, StringConstraints(max_length=2048)]
MOST_CHANGES = 200


class MountShown(Shape):
    """Requests whose path matches `pattern` go to the Resource `target`."""

    pattern: str
    target: str


class ResourceShown(Shape):
    """A Resource as the manifest says it. `env` and `secrets` are names only; values are never shown.

    `kind` is what the lane builds: a component that runs, or an image of files to serve.
    """

    name: str
    lane: str
    kind: ArtifactKind
    public: bool
    mounts: list[MountShown]
    run_limit_secs: int
    memory_limit_mb: int
    egress: list[str]
    env: list[str]
    secrets: list[str]

    @classmethod
    def of(cls, resource: Resource) -> "ResourceShown":
        """Return the shape of a Resource."""
        return cls(
            name=resource.name,
            lane=resource.lane,
            kind=kind_of(resource.lane),
            public=resource.public,
            mounts=[MountShown(pattern=mount.pattern, target=mount.target) for mount in resource.mounts],
            run_limit_secs=resource.run_limit_secs,
            memory_limit_mb=resource.memory_limit_mb,
            egress=list(resource.egress),
            env=list(resource.env),
            secrets=list(resource.secrets),
        )


class Mistake(Shape):
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
    def of(cls, error: ManifestError) -> "Mistake":
        """Return the shape of what is wrong with a file."""
        first = error.problems[0]
        others = len(error.problems) - 1
        return cls(message=first.message, hint=first.hint, line=first.line, key=first.key, others=others)


class ManifestShown(Shape):
    """A Project as its manifest says it.

    `editable` is true in development, where `digest` is the sha256 of the bytes of svc.toml as it is now.
    While that is broken (`error`), the rest is what it said last without a mistake. `front` is the Resource
    at the bare address, if there is one. Resources are in the order of the file.
    """

    project: str
    editable: bool
    digest: str | None
    front: str | None
    resources: list[ResourceShown]
    error: Mistake | None

    @classmethod
    def of(
        cls, project: Project, *, digest: str | None = None, error: ManifestError | None = None
    ) -> "ManifestShown":
        """Return the shape of a Project; one with a digest is in development."""
        editable = digest is not None
        return cls(
            project=project.name,
            editable=editable,
            digest=digest,
            front=project.front.name if editable and project.front is not None else None,
            resources=[ResourceShown.of(each) for each in project.resources.values()],
            error=Mistake.of(error) if error is not None else None,
        )


class Add(Shape):
    """Mount `target` at `pattern` of `resource`."""

    op: Literal["add"]
    resource: Word
    pattern: Word
    target: Word

    def value(self) -> Change:
        """Return the change."""
        return AddMount(self.resource, self.pattern, self.target)


class Alter(Shape):
    """Have the mount `pattern` of `resource` be `to`, and lead to `target`."""

    op: Literal["change"]
    resource: Word
    pattern: Word
    to: Word
    target: Word

    def value(self) -> Change:
        """Return the change."""
        return ChangeMount(self.resource, self.pattern, self.to, self.target)


class Remove(Shape):
    """Remove the mount `pattern` of `resource`."""

    op: Literal["remove"]
    resource: Word
    pattern: Word

    def value(self) -> Change:
        """Return the change."""
        return RemoveMount(self.resource, self.pattern)


AnyChange = Annotated[Add | Alter | Remove, Field(discriminator="op")]


def shape(change: Change) -> Add | Alter | Remove:
    """Return the shape of a change."""
    if isinstance(change, AddMount):
        return Add(op="add", resource=change.resource, pattern=change.pattern, target=change.target)
    if isinstance(change, RemoveMount):
        return Remove(op="remove", resource=change.resource, pattern=change.pattern)
    return Alter(
        op="change",
        resource=change.resource,
        pattern=change.pattern,
        to=change.to,
        target=change.target,
    )


class PlanWish(Shape):
    """Changes, to be made one after the other."""

    changes: Annotated[list[AnyChange], Field(max_length=MOST_CHANGES)]


class WriteWish(Shape):
    """Changes, and the digest of the file that they were planned against."""

    changes: Annotated[list[AnyChange], Field(max_length=MOST_CHANGES)]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Edited(Shape):
    """What changes do, or did: the unified diff of svc.toml, empty where nothing changes; what undoes them.

    `digest` is that of the file as it is: before a plan is written, and after it was.
    """

    diff: str
    digest: str
    inverse: list[AnyChange]
