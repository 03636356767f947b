"""What requests about deployments and their answers look like. Owns these shapes, which /openapi.json shows.

Times are ISO 8601 in UTC; digests are sha256 in hexadecimal.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from engine.control.schema import Shape

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=4096)]
MOST_NAME = 255
"""Bytes of a file's name."""
MANIFEST_CHARACTERS = 256 << 10
MOST_BLOBS = 100_000
MOST_SIZE = 1 << 53


def _short(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > MOST_NAME:
        raise ValueError(f"a file's name has at most {MOST_NAME} bytes")
    return name


FileName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]*\.sql$"), AfterValidator(_short)
]


class Part(Shape):
    """What a Resource was built to: its package, its artifact and its bytes, what its component imports.

    Without a component, `imports` is `null`.
    """

    package: Digest
    artifact: Digest
    size: Annotated[int, Field(ge=0)] = 0
    imports: (
        Annotated[list[Annotated[str, StringConstraints(max_length=200)]], Field(max_length=200)] | None
    ) = None


class PlanWish(Shape):
    """A manifest, its parts, and the blobs that they consist of."""

    manifest: Annotated[str, StringConstraints(max_length=MANIFEST_CHARACTERS)]
    parts: dict[str, Part]
    blobs: list[Digest] = Field([], max_length=MOST_BLOBS)


class Change(Shape):
    """One difference. `grave` ones need `allow_new_capability`."""

    resource: str
    what: str
    before: str
    after: str
    grave: bool


class Plan(Shape):
    """What a deploy would change, made against `revision`, and the blobs that have to be uploaded."""

    revision: int | None
    live: str | None
    changes: list[Change]
    missing: list[Digest]


class DeployWish(Shape):
    """What shall go live, if `revision` is still that of what is live. `tables` are migrations by file."""

    manifest: Annotated[str, StringConstraints(max_length=MANIFEST_CHARACTERS)]
    packages: dict[str, Digest]
    revision: int | None
    commit: Text = ""
    message: Text = ""
    allow_new_capability: bool = False
    tables: dict[FileName, str] = Field({})


class RollbackWish(Shape):
    """The deployment that shall go live again, and why."""

    deployment: Annotated[str, StringConstraints(max_length=100)]
    revision: int
    message: Text = ""


class Address(Shape):
    """Where a Resource is: its address if it is public, and the mounts that lead to it."""

    resource: str
    lane: str
    url: str | None
    mounted: list[str]


class DeploymentShown(Shape):
    """One deployment."""

    id: str
    project: str
    created: str
    by: str
    commit: str
    message: str
    live: bool
    resources: dict[str, Digest]


class FlipShown(Shape):
    """A deployment went live."""

    deployment: str
    at: str
    by: str
    message: str


class Deployments(Shape):
    """What is live (`revision`), the deployments that are kept and the flips, the newest first."""

    revision: int | None
    deployments: list[DeploymentShown]
    flips: list[FlipShown]


class WentLive(Shape):
    """What is live now, and where."""

    deployment: DeploymentShown
    addresses: list[Address]


class RollbackPlan(Shape):
    """What a rollback would change, made against `revision`."""

    revision: int
    live: str
    changes: list[Change]


class UploadQuery(BaseModel):
    """The whole size of what is uploaded, in bytes, and how many of them came before."""

    model_config = ConfigDict(extra="forbid")
    size: Annotated[int, Field(ge=0, le=MOST_SIZE)]
    offset: Annotated[int, Field(ge=0, le=MOST_SIZE)] = 0


class Received(Shape):
    """How many bytes of an upload there are."""

    received: int


class Secrets(Shape):
    """The names of a Project's secrets."""

    secrets: list[str]


class SecretValue(Shape):
    """The value of a secret."""

    value: Annotated[str, StringConstraints(max_length=65_536)]
