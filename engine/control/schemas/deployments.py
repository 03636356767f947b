"""Request and response models for deployments.

Times are ISO 8601 in UTC; digests are sha256 in hexadecimal.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from engine.control.schemas import QueryModel, StrictModel
from engine.manifest.model import Project

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=4096)]
MAX_FILE_NAME_BYTES = 255
MAX_MANIFEST_LENGTH = 256 << 10
MAX_BLOBS = 100_000
MAX_UPLOAD_BYTES = 1 << 53


def _short(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > MAX_FILE_NAME_BYTES:
        raise ValueError(f"a file's name has at most {MAX_FILE_NAME_BYTES} bytes")
    return name


FileName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*\.sql$"), AfterValidator(_short)
]


class BuiltResource(StrictModel):
    """A built resource: its package, artifact, size in bytes and component imports.

    Without a component, `imports` is `null`.
    """

    package: Digest
    artifact: Digest
    size: Annotated[int, Field(ge=0)] = 0
    imports: (
        Annotated[list[Annotated[str, StringConstraints(max_length=200)]], Field(max_length=200)] | None
    ) = None


class PlanRequest(StrictModel):
    """A manifest, its built resources, and the digests of all their blobs."""

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    resources: dict[str, BuiltResource]
    blobs: list[Digest] = Field([], max_length=MAX_BLOBS)


class ChangeOut(StrictModel):
    """One difference, of `[project]` without `resource`. `new_capability` needs `allow_new_capability`."""

    resource: str
    field: str
    before: str
    after: str
    new_capability: bool


class PlanOut(StrictModel):
    """The changes of a deploy relative to `revision`, and the blobs to upload."""

    revision: int | None
    live: str | None
    changes: list[ChangeOut]
    missing: list[Digest]


class DeployRequest(StrictModel):
    """A deploy; it fails if the live revision is not `revision`. `tables` maps file names to migrations.

    Without `discard_mounts`, it fails if mounts drawn in the Console are not in the manifest.
    """

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    packages: dict[str, Digest]
    revision: int | None
    commit: Text = ""
    message: Text = ""
    allow_new_capability: bool = False
    discard_mounts: bool = False
    tables: dict[FileName, str] = Field({})


class RollbackRequest(StrictModel):
    """The deployment to roll back to, and a message."""

    deployment: Annotated[str, StringConstraints(max_length=100)]
    revision: int
    message: Text = ""


class AddressOut(StrictModel):
    """A resource's URL if it is public, and the mounts that lead to it."""

    resource: str
    lane: str
    url: str | None
    mounted: list[str]

    @classmethod
    def of(cls, project: Project, url_of: Callable[[str, str], str]) -> "list[AddressOut]":
        """Return the addresses of a project's resources."""
        mounts = [
            (mount.target, f"{name}:{mount.pattern}")
            for name, each in project.resources.items()
            for mount in each.mounts
        ]
        mounts += [(each.fallback, f"{name} as fallback") for name, each in project.resources.items()]
        return [
            cls(
                resource=name,
                lane=resource.lane,
                url=url_of(project.name, name) if resource.public else None,
                mounted=[mount for target, mount in mounts if target == name],
            )
            for name, resource in project.resources.items()
        ]


class DeploymentOut(StrictModel):
    """One deployment."""

    id: str
    project: str
    created: str
    by: str
    commit: str
    message: str
    live: bool
    resources: dict[str, Digest]


class ActivationOut(StrictModel):
    """When a deployment was made live."""

    deployment: str
    at: str
    by: str
    message: str


class DeploymentList(StrictModel):
    """The live revision and front (or `null`), the retained deployments and the activations, newest first."""

    revision: int | None
    address: str | None
    deployments: list[DeploymentOut]
    activations: list[ActivationOut]


class LiveOut(StrictModel):
    """The live deployment and its addresses; `address` is that of the front, `null` if there is none."""

    deployment: DeploymentOut
    address: str | None
    addresses: list[AddressOut]


class RemovedOut(StrictModel):
    """The name of a removed project."""

    removed: str


class RollbackPlanOut(StrictModel):
    """The changes of a rollback relative to `revision`."""

    revision: int
    live: str
    changes: list[ChangeOut]


class UploadQuery(QueryModel):
    """The total size of the upload in bytes, and the offset of this part."""

    size: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)]
    offset: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)] = 0


class UploadOut(StrictModel):
    """How many bytes of an upload were received."""

    received: int


class SecretList(StrictModel):
    """The names of a project's secrets."""

    secrets: list[str]


class SecretRequest(StrictModel):
    """The value of a secret."""

    value: Annotated[str, StringConstraints(max_length=65_536)]
