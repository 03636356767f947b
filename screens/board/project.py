"""A Project as the Board knows it: what its manifest says, and how its parts are.

Owns how the documents of the control API (`/manifest` and `/state`) are read. Imports no Textual.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Stage = Literal["waiting", "building", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Mount:
    """Requests to `source` whose path matches `pattern` are answered by `target`."""

    source: str
    pattern: str
    target: str


@dataclass(frozen=True, slots=True)
class Resource:
    """A Resource as the manifest says it; of `env` and `secrets` the names."""

    name: str
    lane: str
    kind: str
    public: bool
    run_limit_secs: int
    memory_limit_mb: int
    egress: tuple[str, ...]
    env: tuple[str, ...]
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What svc.toml says, or said last without a mistake while there is one: `broken` says which.

    `digest` is that of the file as it is now; empty where it can not be edited.
    """

    resources: Mapping[str, Resource]
    mounts: tuple[Mount, ...]
    digest: str = ""
    front: str | None = None
    broken: str = ""

    @property
    def editable(self) -> bool:
        """Whether mounts can be drawn here."""
        return bool(self.digest)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Manifest":
        """Read the answer to `GET /manifest`."""
        resources = {
            each["name"]: Resource(
                each["name"],
                each["lane"],
                each["kind"],
                each["public"],
                each["run_limit_secs"],
                each["memory_limit_mb"],
                tuple(each["egress"]),
                tuple(each["env"]),
                tuple(each["secrets"]),
            )
            for each in document["resources"]
        }
        mounts = tuple(
            Mount(each["name"], mount["pattern"], mount["target"])
            for each in document["resources"]
            for mount in each["mounts"]
        )
        digest = (document["digest"] or "") if document["editable"] else ""
        return cls(resources, mounts, digest, document["front"], _broken(document["error"]))


def _broken(error: Mapping[str, Any] | None) -> str:
    if error is None:
        return ""
    line = f" line {error['line']}" if error["line"] else ""
    others = f" (and {error['others']} more)" if error["others"] else ""
    return f"svc.toml{line}: {error['message']}{others}\n{error['hint']}".strip()


@dataclass(frozen=True, slots=True)
class Rates:
    """What the last minute was like: `p95_ms` and `peak_memory` (bytes) are None without a request.

    `errors` is the part of the requests that were answered by 500 or more, from 0 to 1.
    """

    per_second: float = 0.0
    p95_ms: float | None = None
    errors: float = 0.0
    peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """How a Resource is: `seconds` is what its last build took.

    `failure` and `hint` say why it failed, `said` is what the compiler said of that.
    `serves` tells whether any version of it answers; `records` are those it sends to the telemetry Door in a
    second.
    """

    stage: Stage = "waiting"
    address: str | None = None
    seconds: float | None = None
    serves: bool = False
    failure: str = ""
    hint: str = ""
    rates: Rates = Rates()
    records: float = 0.0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Door:
    """What a Door keeps, in bytes, or takes, in records a second; None for what it has not.

    `users` has how often each Resource asked it since the engine was started.
    """

    tables: int | None = None
    size: int | None = None
    records: float | None = None
    users: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """How all of it is: Resources by name, requests per second by mount's source and pattern, Doors by name.

    `address` is where people begin.
    """

    resources: Mapping[str, Health] = field(default_factory=dict)
    mounts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    doors: Mapping[str, Door] = field(default_factory=dict)
    address: str | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "State":
        """Read the answer to `GET /state`."""
        resources = {
            each["name"]: Health(
                each["state"],
                each["address"],
                each["built_seconds"],
                each["serves"],
                each["error"]["message"] if each["error"] else "",
                each["error"]["hint"] if each["error"] else "",
                Rates(each["requests"], each["p95_ms"], each["failures"], each["peak_memory"]),
                each["records"],
                each["error"]["said"] if each["error"] else "",
            )
            for each in document["resources"]
        }
        mounts = {(each["resource"], each["pattern"]): each["requests"] for each in document["mounts"]}
        doors = {
            each["name"]: Door(
                each["tables"],
                each["bytes"],
                each["records"],
                {user["resource"]: user["asked"] for user in each["users"]},
            )
            for each in document["doors"]
        }
        return cls(resources, mounts, doors, document["address"])
