"""Schema of `svc.toml` as pydantic models: types, ranges and the description of each key.

`validate.py` has the rules between keys. The JSON Schema for editors is generated from these models
and the registered lanes.
"""

import json
import re
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from engine.manifest.egress import MAX_DOMAINS
from engine.manifest.model import REDIRECT_STATUSES, Reads, registered_lanes
from engine.manifest.schedules import Overlap

NAME_LENGTH = 39
NAME_RULE = f"Use a-z, 0-9 and single -, a letter first, at most {NAME_LENGTH} characters."
NAME_PATTERN = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
_NAME_SCHEMA: JsonDict = {"type": "string", "pattern": NAME_PATTERN, "maxLength": NAME_LENGTH}
_HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_VARIABLE_NAMES: JsonDict = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a project or resource. Host names join the two with `--`."""
    return len(text) <= NAME_LENGTH and re.fullmatch(NAME_PATTERN[1:-1], text) is not None


def _registered_lane(name: Any) -> Any:
    if isinstance(name, str) and name not in registered_lanes():
        raise PydanticCustomError("unknown_lane", "unknown lane")
    return name


class _ManifestTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


_OptionalText = Annotated[str | None, Field(min_length=1), WithJsonSchema({"type": "string", "minLength": 1})]


class RedirectTable(_ManifestTable):
    """A redirect of a static resource; in `redirects`, a text stands for `to`."""

    to: str
    status: int = Field(308, json_schema_extra={"enum": list(REDIRECT_STATUSES)})


def _text_for(key: str, table: type[_ManifestTable]) -> BeforeValidator:
    """Return the validator by which a text stands for a table with this key."""
    return BeforeValidator(
        lambda value: {key: value} if isinstance(value, str) else value, json_schema_input_type=str | table
    )


class ScheduleTable(_ManifestTable):
    """A schedule of a resource; in `schedules`, a text stands for `at`."""

    at: str
    overlap: Overlap = "skip"
    catch_up: bool = False


_PATTERNS: JsonDict = {"propertyNames": {"pattern": r"^/([^*?#]*/)?\*$|^/[^*?#]*$"}}


class ResourceTable(_ManifestTable):
    """One resource: a part of the project that answers requests."""

    lane: Annotated[str, BeforeValidator(_registered_lane)] = Field(
        description="Language runtime that builds the resource."
    )
    public: bool = Field(
        False, description="true: reachable at its own address. false: reachable through a mount only."
    )
    workdir: str = Field(".", description="Folder of the resource's sources, inside the project folder.")
    build: _OptionalText = Field(None, description="Shell command that builds the resource, run in workdir.")
    builder: _OptionalText = Field(
        None, description="static: program that svc dev starts once, to build after each save."
    )
    output: _OptionalText = Field(
        None, description="static: folder to serve. Otherwise: the component that build writes."
    )
    files: _OptionalText = Field(
        None, description="static: prefix of the stored files of the project to serve instead of output."
    )
    entry: _OptionalText = Field(
        None, description="js: module that exports the handler, relative to workdir."
    )
    spa: bool = Field(False, description="static: answer navigations that match no file with /index.html.")
    not_found: _OptionalText = Field(
        None, description="static: file in output that answers requests without a file, with status 404."
    )
    fallback: _OptionalText = Field(
        None, description="static: Resource that answers requests without a mount and a file, of all methods."
    )
    headers: dict[str, dict[str, str]] = Field(
        {},
        description="static: path pattern -> header fields of the files below it.",
        json_schema_extra=_PATTERNS,
    )
    redirects: dict[str, Annotated[RedirectTable, _text_for("to", RedirectTable)]] = Field(
        {},
        description="static: path pattern -> path or URL that requests are redirected to, before files.",
        json_schema_extra=_PATTERNS,
    )
    mounts: dict[str, str] = Field(
        {},
        description="Path pattern (/prefix/* or an exact path) -> Resource that answers those requests.",
        json_schema_extra=_PATTERNS,
    )
    schedules: dict[str, Annotated[ScheduleTable, _text_for("at", ScheduleTable)]] = Field(
        {},
        description="Path -> times at which svc sends a POST to it: cron expression, or period: every 5m.",
        json_schema_extra={"propertyNames": {"pattern": "^/[^*?#]*$"}},
    )
    timezone: str = Field("UTC", description="Time zone of the schedules, e.g. Europe/Zurich.")
    run_limit_secs: int = Field(
        30,
        ge=1,
        le=900,
        validation_alias=AliasChoices("run_limit_secs", "runLimitSecs"),
        description="Maximum seconds of a request, including its streamed response. Also: runLimitSecs.",
    )
    memory_limit_mb: int = Field(128, ge=16, le=1024, description="Memory limit of an instance in MiB.")
    reads: Reads = Field("fresh", description="stale: reads in a fleet can miss the last writes of others.")
    rate: _OptionalText = Field(
        None, description="Requests of one client address in a period, per process, e.g. 20/1m."
    )
    egress: list[str] = Field(
        [], description="Origins that the resource may call, e.g. https://api.example.com."
    )
    domains: list[str] = Field(
        [],
        max_length=MAX_DOMAINS,
        description="Own domains of a public resource. Others redirect to the first one that works.",
    )
    hsts: bool = Field(
        False, description="Add Strict-Transport-Security to responses over https, for one year."
    )
    env: dict[str, str] = Field(
        {},
        description="Environment variables of the resource.",
        json_schema_extra={"propertyNames": _VARIABLE_NAMES},
    )
    secrets: list[str] = Field(
        [], description="Names of environment variables whose values are stored outside the manifest."
    )


class ProjectTable(_ManifestTable):
    """The project as a whole."""

    name: Annotated[str, WithJsonSchema(_NAME_SCHEMA)] = Field(
        description="Project name: a-z, 0-9 and single -, a letter first, at most 39 characters."
    )
    check: Annotated[str | None, WithJsonSchema({"type": "string", "pattern": "^/[!-~]*$"})] = Field(
        None,
        description="Path that public resources must answer below 400 before a deployment is live.",
        pattern=r"^/[!-~]*$",
    )
    front: _OptionalText = Field(
        None, description="Public resource at the project's address. Default: the only static or only one."
    )
    domains: list[str] = Field(
        [], max_length=MAX_DOMAINS, description="Own domains of the front: short for its domains."
    )
    record_bodies: bool = Field(
        True, description="svc dev records requests and responses for inspection and replay."
    )
    redact_headers: list[Annotated[str, StringConstraints(pattern=_HEADER_NAME)]] = Field(
        [], description="Headers, parameters and fields to redact in recordings, besides the default ones."
    )
    otlp: _OptionalText = Field(
        None,
        description="OpenTelemetry collector that a service sends logs, traces and metrics to, by OTLP/HTTP.",
    )
    otlp_headers: dict[str, str] = Field(
        {},
        description="Headers for the collector: name -> name of the secret that has the value.",
        json_schema_extra={"propertyNames": {"pattern": _HEADER_NAME}},
    )


class Document(_ManifestTable):
    """A complete `svc.toml`."""

    project: ProjectTable = Field(description="The project.")
    resource: dict[str, ResourceTable] = Field(
        description="The resources, by name.",
        min_length=1,
        json_schema_extra={
            "propertyNames": {key: value for key, value in _NAME_SCHEMA.items() if key != "type"}
        },
    )


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def manifest_schema() -> dict[str, Any]:
    """Return the schema of a whole manifest (JSON Schema 2020-12)."""
    document = Document.model_json_schema(by_alias=False)
    resource = document["$defs"]["ResourceTable"]
    for table in (document, *document["$defs"].values()):
        for key in table["properties"].values():
            key.pop("title", None)
            if key.get("default", ...) is None:
                del key["default"]
    resource["properties"]["runLimitSecs"] = dict(resource["properties"]["run_limit_secs"])
    resource["not"] = {"required": ["run_limit_secs", "runLimitSecs"]}
    lanes = registered_lanes()
    resource["properties"]["lane"] |= {"enum": list(lanes)}
    with_output = [name for name, lane in lanes.items() if lane.needs_output]
    resource["if"] = {"properties": {"lane": {"enum": with_output}}, "required": ["lane"]}
    resource["then"] = {"anyOf": [{"required": ["output"]}, {"required": ["files"]}]}
    return {"$schema": DIALECT, **document, "title": "svc.toml"}


def json_schema_text() -> str:
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"
