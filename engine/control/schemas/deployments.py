"""What requests about deployments and their answers look like. Owns these shapes, which /openapi.json shows.

Times are ISO 8601 in UTC; digests are sha256 in hexadecimal.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from engine.control.schema import StrictModel

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=4096)]
MAX_FILE_NAME_BYTES = 255
"""Bytes of a file's name."""
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
    """What a Resource was built to: its package, its artifact and its bytes, what its component imports.

    Without a component, `imports` is `null`.
    """

    package: Digest
    artifact: Digest
    size: Annotated[int, Field(ge=0)] = 0
    imports: (
        Annotated[list[Annotated[str, StringConstraints(max_length=200)]], Field(max_length=200)] | None
    ) = None


class PlanRequest(StrictModel):
    """A manifest, its parts, and the blobs that they consist of."""

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    parts: dict[str, BuiltResource]
    blobs: list[Digest] = Field([], max_length=MAX_BLOBS)


class ChangeOut(StrictModel):
    """One difference. `grave` ones need `allow_new_capability`."""

    resource: str
    what: str
    before: str
    after: str
    grave: bool


class PlanOut(StrictModel):
    """What a deploy would change, made against `revision`, and the blobs that have to be uploaded."""

    revision: int | None
    live: str | None
    changes: list[ChangeOut]
    missing: list[Digest]


class DeployRequest(StrictModel):
    """What shall go live, if `revision` is still that of what is live. `tables` are migrations by file."""

    manifest: Annotated[str, StringConstraints(max_length=MAX_MANIFEST_LENGTH)]
    packages: dict[str, Digest]
    revision: int | None
    commit: Text = ""
    message: Text = ""
    allow_new_capability: bool = False
    tables: dict[FileName, str] = Field({})


class RollbackRequest(StrictModel):
    """The deployment that shall go live again, and why."""

    deployment: Annotated[str, StringConstraints(max_length=100)]
    revision: int
    message: Text = ""


class AddressOut(StrictModel):
    """Where a Resource is: its address if it is public, and the mounts that lead to it."""

    resource: str
    lane: str
    url: str | None
    mounted: list[str]


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
    """A deployment went live."""

    deployment: str
    at: str
    by: str
    message: str


class DeploymentList(StrictModel):
    """What is live (`revision`), the deployments that are kept and the flips, the newest first."""

    revision: int | None
    deployments: list[DeploymentOut]
    flips: list[ActivationOut]


class LiveOut(StrictModel):
    """What is live now, and where."""

    deployment: DeploymentOut
    addresses: list[AddressOut]


class RollbackPlanOut(StrictModel):
    """What a rollback would change, made against `revision`."""

    revision: int
    live: str
    changes: list[ChangeOut]


class UploadQuery(BaseModel):
    """The whole size of what is uploaded, in bytes, and how many of them came before."""

    model_config = ConfigDict(extra="forbid")
    size: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)]
    offset: Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)] = 0


class UploadOut(StrictModel):
    """How many bytes of an upload there are."""

    received: int


class SecretList(StrictModel):
    """The names of a Project's secrets."""

    secrets: list[str]


class SecretRequest(StrictModel):
    """The value of a secret."""

    value: Annotated[str, StringConstraints(max_length=65_536)]
