"""Project data of the Board: the manifest, and the status of resources and Doors.

Parses `/manifest` and `/state` of the control API. Does not import Textual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from screens.widgets.rows import Tone

Stage = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class BoardMount:
    """Routes requests to `source` whose path matches `pattern` to `target`."""

    source: str
    pattern: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardResource:
    """A resource of the manifest; `tone` is for the lane's name, `env` and `secrets` hold names only."""

    name: str
    lane: str
    tone: Tone
    kind: str
    public: bool
    run_limit_secs: int
    memory_limit_mb: int
    egress: Sequence[str]
    env: Sequence[str]
    secrets: Sequence[str]
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The last valid svc.toml; `error` describes the error of an invalid one.

    `digest` belongs to the current file; "" if the project cannot be edited here.
    """

    resources: Mapping[str, BoardResource]
    mounts: tuple[BoardMount, ...]
    digest: str = ""
    error: str = ""

    @property
    def editable(self) -> bool:
        return bool(self.digest)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Manifest":
        """Parse the response of `GET /manifest`."""
        resources = {
            resource["name"]: BoardResource(**_members(BoardResource, resource))
            for resource in document["resources"]
        }
        mounts = tuple(
            BoardMount(resource["name"], mount["pattern"], mount["target"])
            for resource in document["resources"]
            for mount in resource["mounts"]
        )
        digest = (document["digest"] or "") if document["editable"] else ""
        return cls(resources, mounts, digest, _error_text(document["error"]))


def _error_text(error: Mapping[str, Any] | None) -> str:
    if error is None:
        return ""
    line = f" line {error['line']}" if error["line"] else ""
    others = f" (and {error['others']} more)" if error["others"] else ""
    return f"svc.toml{line}: {error['message']}{others}\n{error['hint']}".strip()


def _members(shape: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: document[each.name] for each in fields(shape)}


_NO_ERROR = {"message": "", "hint": "", "output": "", "file": "", "line": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a resource, as in the response of `GET /state`.

    `requests` (a second), `p95_ms`, `failures` (the fraction with status 500 or above) and `peak_memory` are
    those of the last minute. `history` has the number of requests in each of the last seconds. `serves` is
    True if any version is serving.
    """

    state: Stage = "waiting"
    address: str | None = None
    build_seconds: float | None = None
    serves: bool = False
    error: Mapping[str, Any] | None = None
    requests: float = 0.0
    p95_ms: float | None = None
    failures: float = 0.0
    peak_memory: int | None = None
    history: Sequence[int] = ()
    domains: Sequence[Mapping[str, Any]] = ()
    schedules: Sequence[Mapping[str, Any]] = ()

    @property
    def failure(self) -> Mapping[str, Any]:
        """The error of a failed build; its texts are empty if there is none."""
        return self.error or _NO_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardDoor:
    """A Door, as in the response of `GET /state`; `users` maps resources to their calls since the start."""

    users: Mapping[str, int] = field(default_factory=dict)
    purpose: str = ""
    variables: Sequence[str] = ("",)
    unit: str = ""
    count: int | None = None
    bytes: int | None = None
    log_bytes: int | None = None
    records: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStatus:
    """The status of a project: resources by name, request rates by mount (source, pattern), Doors by name.

    `address` is the entry URL of the project.
    """

    resources: Mapping[str, Health] = field(default_factory=dict)
    mounts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    doors: Mapping[str, BoardDoor] = field(default_factory=dict)
    address: str | None = None
    memory: tuple[int, int] | None = None
    """Bytes that the service uses, and its budget; None in development."""
    quota: Mapping[str, int] = field(default_factory=dict)
    """Limits of the project on its service, by name in the control API."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ProjectStatus":
        """Parse the response of `GET /state`."""
        resources = {each["name"]: Health(**_members(Health, each)) for each in document["resources"]}
        mounts = {(mount["resource"], mount["pattern"]): mount["requests"] for mount in document["mounts"]}
        doors = {
            door["name"]: BoardDoor(
                **_members(BoardDoor, door)
                | {"users": {user["resource"]: user["calls"] for user in door["users"]}}
            )
            for door in document["doors"]
        }
        state = document.get("memory")
        memory = (state["used"], state["budget"]) if state else None
        limits = document.get("quota") or {}
        quota = {name: limit for name, limit in limits.items() if limit is not None}
        return cls(
            resources=resources,
            mounts=mounts,
            doors=doors,
            address=document["address"],
            memory=memory,
            quota=quota,
        )
