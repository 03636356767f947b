"""The shape of `svc.toml`, as pydantic models: types, ranges and the words that document each key.

Owns what can be said of one key alone. What relates keys to each other, or to folders, is in `check.py`.
The JSON Schema is generated from here.
"""

from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

NAME = r"^[a-z][a-z0-9-]{0,38}$"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class ResourceTable(_Table):
    """One `[resource.<name>]` table."""

    lane: Annotated[
        Literal["static", "go", "rust", "js"], Field(description="What the Resource is built with.")
    ]
    public: Annotated[
        bool,
        Field(description="true: reachable at its own address. false: reachable through a mount only."),
    ] = False
    workdir: Annotated[
        str, Field(description="Folder of the Resource's sources, inside the Project folder.")
    ] = "."
    build: Annotated[
        str | None, Field(description="Shell command that builds the Resource, run in workdir.")
    ] = None
    output: Annotated[
        str | None,
        Field(description="static: folder to serve. Otherwise: the component that `build` leaves."),
    ] = None
    entry: Annotated[str | None, Field(description="js: the module that exports the handler.")] = None
    spa: Annotated[
        bool, Field(description="static: answer navigations that match no file with /index.html.")
    ] = False
    mounts: Annotated[
        dict[str, str], Field(description="Path pattern -> Resource that answers those requests.")
    ] = {}
    run_limit_secs: Annotated[
        int,
        Field(
            ge=1,
            le=900,
            validation_alias=AliasChoices("run_limit_secs", "runLimitSecs"),
            description="Seconds that one run may take, its streamed response included.",
        ),
    ] = 30
    memory_limit_mb: Annotated[
        int, Field(ge=16, le=1024, description="MiB of memory that one instance may use.")
    ] = 128
    egress: Annotated[
        list[str], Field(description="Origins that the Resource may call, e.g. https://api.example.com.")
    ] = []
    env: Annotated[dict[str, str], Field(description="Environment variables of the Resource.")] = {}
    secrets: Annotated[
        list[str], Field(description="Names of variables whose values are kept outside the manifest.")
    ] = []


class ProjectTable(_Table):
    """The `[project]` table."""

    name: Annotated[
        str,
        Field(pattern=NAME, description="Project name: a-z, 0-9 and -, first a letter, at most 39, no --."),
    ]


class Document(_Table):
    """A whole `svc.toml`."""

    project: Annotated[ProjectTable, Field(description="The Project.")]
    resource: Annotated[dict[str, ResourceTable], Field(description="The Resources, by name.", min_length=1)]
