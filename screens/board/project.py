"""Project data of the Board: manifest, status of resources and Doors, and the unsaved edits of mounts.

Parses `/manifest` and `/state` of the control API. The engine validates patterns and computes the change of
svc.toml. Does not import Textual.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from screens.project_client import ProjectClient
from screens.widgets.rows import Tone
from svc_tui.client import SvcError, Unreachable

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
        found = document["resources"]
        resources = {each["name"]: BoardResource(**_members(BoardResource, each)) for each in found}
        mounts = tuple(
            BoardMount(each["name"], mount["pattern"], mount["target"])
            for each in found
            for mount in each["mounts"]
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
    """The status of a project: resources and Doors by name, request rates by mount (source, pattern)."""

    resources: Mapping[str, Health] = field(default_factory=dict)
    mounts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    doors: Mapping[str, BoardDoor] = field(default_factory=dict)
    address: str | None = None
    """The entry URL."""
    memory: tuple[int, int] | None = None
    """Bytes that the service uses, and its budget; None in development."""
    quota: Mapping[str, int] = field(default_factory=dict)
    """Limits of the project on its service, by name in the control API."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "ProjectStatus":
        """Parse the response of `GET /state`."""
        resources = {each["name"]: Health(**_members(Health, each)) for each in document["resources"]}
        mounts = {(mount["resource"], mount["pattern"]): mount["requests"] for mount in document["mounts"]}
        doors: dict[str, BoardDoor] = {}
        for door in document["doors"]:
            users = {user["resource"]: user["calls"] for user in door["users"]}
            doors[door["name"]] = BoardDoor(**_members(BoardDoor, door) | {"users": users})
        memory, quota = document.get("memory"), document.get("quota") or {}
        return cls(
            resources=resources,
            mounts=mounts,
            doors=doors,
            address=document["address"],
            memory=(memory["used"], memory["budget"]) if memory else None,
            quota={name: limit for name, limit in quota.items() if limit is not None},
        )


Mark = Literal["", "added", "removed"]


MountEdit = Mapping[str, str]
"""An edit as in a request to `/manifest/plan`: `op` is `add`, `change` or `remove`."""


@dataclass(frozen=True, slots=True)
class DrawnMount:
    """A mount in the diagram with the mark of its edit."""

    mount: BoardMount
    mark: Mark = ""


def apply_edits(mounts: Iterable[BoardMount], edits: Iterable[MountEdit]) -> list[BoardMount]:
    """Return the mounts after the edits. A missing mount cannot be removed, and its change adds one."""
    result = list(mounts)
    for edit in edits:
        source, pattern, after = edit["resource"], edit["pattern"], list[BoardMount]()
        places = [at for at, each in enumerate(result) if (each.source, each.pattern) == (source, pattern)]
        if edit["op"] != "remove":
            after = [BoardMount(source, edit.get("to", pattern), edit["target"])]
        if places and edit["op"] != "add":
            result[places[0] : places[0] + 1] = after
        else:
            result += [each for each in after if each not in result]
    return result


def mounts_to_draw(mounts: Sequence[BoardMount], edits: Sequence[MountEdit]) -> list[DrawnMount]:
    """Return the mounts to draw; removed mounts are included with a mark."""
    after = apply_edits(mounts, edits)
    existing = [DrawnMount(mount, "" if mount in after else "removed") for mount in mounts]
    return existing + [DrawnMount(mount, "added") for mount in after if mount not in mounts]


def target_problems(manifest: Manifest, mounts: Sequence[BoardMount], source: str) -> dict[str, str]:
    """Return for each resource why it cannot be mounted in `source`; "" if it can."""
    targets: dict[str, list[str]] = {}
    for mount in mounts:
        targets.setdefault(mount.source, []).append(mount.target)
    problems = {}
    for name in manifest.resources:
        path = _path(targets, name, source)
        if name == source:
            problems[name] = "a resource cannot be mounted in itself"
        elif path:
            problems[name] = f"this would create a cycle: {' → '.join([source, *path])}"
        else:
            problems[name] = ""
    return problems


def _path(targets: dict[str, list[str]], begin: str, end: str) -> list[str]:
    """Return the shortest path of mounts between two resources, both included; empty if none exists."""
    paths = [[begin]]
    visited = {begin}
    for path in paths:
        if path[-1] == end:
            return path
        for target in targets.get(path[-1], ()):
            if target not in visited:
                visited.add(target)
                paths.append([*path, target])
    return []


def default_pattern(mounts: Iterable[BoardMount], source: str, target: str) -> str:
    """Return an unused pattern for a mount in `source`, such as `/<target>/*`."""
    used = {mount.pattern for mount in mounts if mount.source == source}
    pattern, count = f"/{target}/*", 2
    while pattern in used:
        pattern, count = f"/{target}-{count}/*", count + 1
    return pattern


_Saved = list[Sequence[MountEdit]]
_Restore = tuple[_Saved, _Saved, int]
"""Staged edits that undo or redo saved ones, and their number: the first ones of the draft.

Saving them moves an entry from the first list to the second.
"""


class MountDraft:
    """An ordered list of edits. Methods that call the engine raise `SvcError` and change nothing then."""

    def __init__(self, client: ProjectClient, mounts: Callable[[], Sequence[BoardMount]]) -> None:
        """Create an empty draft. `mounts` returns those of the file."""
        self._client, self._mounts = client, mounts
        self._written: _Saved = []
        self._undone: _Saved = []
        self._restore: _Restore | None = None
        self._before_undo: list[tuple[tuple[MountEdit, ...], _Restore | None]] = []
        self._lock = asyncio.Lock()
        self.edits: tuple[MountEdit, ...] = ()
        self.plan: Mapping[str, str] | None = None
        """The effect of the edits: a diff of svc.toml, and the digest of the file or deployment."""
        self.problem: SvcError | None = None
        """Why the edits no longer apply: another program or user changed what they are based on."""

    @property
    def can_undo(self) -> bool:
        return bool(self.edits or self._written)

    @property
    def can_redo(self) -> bool:
        return bool(self._before_undo or (self._undone and not self.edits))

    async def preview(self, *extra: MountEdit) -> Mapping[str, str]:
        """Return the plan of the edits and some more, without adding them."""
        return await self._plan([*self.edits, *extra])

    async def add(self, *added: MountEdit) -> None:
        """Add edits to the draft. Edits that cancel out clear it."""
        await self._add(added)
        self._before_undo.clear()

    async def _add(self, added: Sequence[MountEdit]) -> None:
        async with self._lock:
            edits, mounts = (*self.edits, *added), self._mounts()
            plan = await self._plan(edits)
            if set(apply_edits(mounts, edits)) == set(mounts):
                self.clear()
                return
            self.edits, self.plan, self.problem = edits, plan, None

    async def replan(self) -> bool:
        """Plan again after a change of the file and a save in progress; `problem` holds the error.

        Return whether others changed what the edits are based on.
        """
        async with self._lock:
            before = self.plan
            if not self.edits:
                return False
            try:
                self.plan, self.problem = await self._plan(self.edits), None
            except Unreachable:
                return False  # The last plan stays visible. Its digest prevents saving over other changes.
            except SvcError as error:
                self.plan, self.problem = None, error
            return before is not None and (self.plan is None or self.plan["digest"] != before["digest"])

    async def undo(self) -> None:
        """Remove the last edit, or stage the inverse of the last saved edits."""
        before = self.edits, self._restore
        if self.edits:
            remaining = self.edits[:-1]
            self.clear()
            if remaining:
                self.edits = remaining
                await self.replan()
        else:
            await self._stage(self._written, self._undone)
        if self.edits != before[0]:
            self._before_undo.append(before)

    async def redo(self) -> None:
        """Reverse the last undo, or stage edits again whose undo was saved."""
        if self._before_undo:
            self.clear()
            self.edits, self._restore = self._before_undo.pop()
            await self.replan()
        elif not self.edits:
            await self._stage(self._undone, self._written)

    async def _stage(self, source: _Saved, target: _Saved) -> None:
        if source:
            await self._add(source[-1])
            self._restore = source, target, len(self.edits)

    def clear(self) -> None:
        self.edits, self.plan, self.problem, self._restore = (), None, None, None

    async def write(self) -> Literal["", "undo", "redo"]:
        """Save the edits. Return what takes the save back; "" without edits."""
        async with self._lock:
            if self.plan is None:
                if self.problem is not None:
                    raise self.problem
                return ""
            body = {"changes": self.edits, "digest": self.plan["digest"]}
            response = await self._client.call("POST", "/manifest/write", body)
            source, target, count = self._restore or ([], self._written, 0)
            del source[-1:]
            if count != len(self.edits):
                target = self._written
                self._undone.clear()
            target.append(response["inverse"])
            self._before_undo.clear()
            self.clear()
            return "undo" if target is self._written else "redo"

    async def _plan(self, edits: Sequence[MountEdit]) -> Mapping[str, str]:
        return dict(await self._client.call("POST", "/manifest/plan", {"changes": edits}))
