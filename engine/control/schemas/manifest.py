"""Request and response models of the manifest routes."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, StringConstraints

from engine.artifact import ArtifactKind
from engine.control.schemas import StrictModel
from engine.deploy.deployment import DrawnMount
from engine.manifest.edit import Change
from engine.manifest.model import LaneTone, Project, kind_of, tone_of
from engine.manifest.problems import ManifestError

MAX_CHANGES = 200


class MountOut(StrictModel):
    """Requests whose path matches `pattern` are routed to the resource `target`."""

    pattern: str
    target: str


class ResourceOut(StrictModel):
    """A resource of the manifest. `tone` is the hue of its lane. `env` and `secrets` are names only."""

    name: str
    lane: str
    tone: LaneTone
    kind: ArtifactKind
    public: bool
    mounts: list[MountOut]
    fallback: str
    run_limit_secs: int
    memory_limit_mb: int
    egress: list[str]
    env: list[str]
    secrets: list[str]


class MistakeOut(StrictModel):
    """The first error in the file, and the number of `others`.

    `line` counts from 1; 0 stands for the whole file. `key` is the key's path in TOML notation, or empty.
    """

    message: str
    hint: str
    line: int
    key: str
    others: int


class ManifestOut(StrictModel):
    """A project as described by its manifest.

    `editable` is true if the caller can edit its mounts. `digest` then stands for what an edit is based on:
    the content of svc.toml in development, the live deployment on a service. While the file has an `error`,
    the other members are from its last valid version. `front` is the resource at the project's
    address, or `null`. Resources are in the order of the file. `drawn` are the changes of mounts in the
    Console since the last deploy of a manifest.
    """

    project: str
    editable: bool
    digest: str | None
    front: str | None
    resources: list[ResourceOut]
    error: MistakeOut | None
    drawn: list[DrawnMount]

    @classmethod
    def from_project(
        cls,
        project: Project,
        *,
        digest: str | None = None,
        error: ManifestError | None = None,
        drawn: Iterable[DrawnMount] = (),
    ) -> "ManifestOut":
        """Return the response model of a project; with a `digest`, the caller can edit it."""
        mistakes = error.problems if error is not None else []
        return cls(
            project=project.name,
            editable=digest is not None,
            digest=digest,
            front=project.front.name if project.front is not None else None,
            resources=[
                ResourceOut.from_value(
                    each, tone=tone_of(each.lane), kind=kind_of(each.lane), env=list(each.env)
                )
                for each in project.resources.values()
            ],
            error=MistakeOut.from_value(mistakes[0], others=len(mistakes) - 1) if mistakes else None,
            drawn=list(drawn),
        )


ManifestChange = Annotated[Change, Field(discriminator="op")]


class ManifestPlanRequest(StrictModel):
    """Changes, applied in order."""

    changes: Annotated[list[ManifestChange], Field(max_length=MAX_CHANGES)]


class ManifestWriteRequest(StrictModel):
    """Changes, and the digest of the file or deployment for which they were planned."""

    changes: Annotated[list[ManifestChange], Field(max_length=MAX_CHANGES)]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestEditOut(StrictModel):
    """The unified diff of svc.toml, and the changes that undo it.

    `digest` is that of the current file or deployment: before a plan is written, or after the write.
    """

    diff: str
    digest: str
    inverse: list[ManifestChange]
