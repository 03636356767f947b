"""Edits of mounts, the mounts that result from them, and the unsaved edits with undo.

The engine validates patterns and computes the change of svc.toml. Does not import Textual.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from screens.board.project import BoardMount, Manifest
from screens.project_client import ProjectClient
from svc_tui.client import SvcError, Unreachable

Mark = Literal["", "added", "removed"]


@dataclass(frozen=True, slots=True)
class MountEdit:
    """An edit that replaces `before` by `after`; either is None for an added or removed mount."""

    before: BoardMount | None
    after: BoardMount | None

    @property
    def document(self) -> dict[str, Any]:
        """The edit as JSON for the control API."""
        if self.before is None:
            assert self.after is not None
            mount = self.after
            return {"op": "add", "resource": mount.source, "pattern": mount.pattern, "target": mount.target}
        change = {"resource": self.before.source, "pattern": self.before.pattern}
        if self.after is None:
            return {"op": "remove", **change}
        return {"op": "change", **change, "to": self.after.pattern, "target": self.after.target}


@dataclass(frozen=True, slots=True)
class DrawnMount:
    """A mount in the diagram with the mark of its edit."""

    mount: BoardMount
    mark: Mark = ""


def parse_edits(documents: Iterable[dict[str, Any]], mounts: Sequence[BoardMount]) -> list[MountEdit]:
    """Return edits from JSON of the control API, applied to these mounts in order.

    Raises `SvcError` if an edit refers to a mount that no longer exists.
    """
    edits: list[MountEdit] = []
    for change in documents:
        before = None
        if change["op"] != "add":
            current = {(mount.source, mount.pattern): mount for mount in apply_edits(mounts, edits)}
            before = current.get((change["resource"], change["pattern"]))
            if before is None:
                raise SvcError(
                    f"{change['resource']} no longer has the mount {change['pattern']}",
                    "The mounts have changed; edit them by hand.",
                )
        after = None
        if change["op"] != "remove":
            after = BoardMount(change["resource"], change.get("to", change["pattern"]), change["target"])
        edits.append(MountEdit(before, after))
    return edits


def apply_edits(mounts: Iterable[BoardMount], edits: Iterable[MountEdit]) -> list[BoardMount]:
    """Return the mounts after the edits."""
    result = list(mounts)
    for edit in edits:
        if edit.before in result:
            at = result.index(edit.before)
            result[at : at + 1] = [edit.after] if edit.after is not None else []
        elif edit.after is not None and edit.after not in result:
            result.append(edit.after)
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


@dataclass(frozen=True, slots=True)
class _Restore:
    """Staged edits that undo or redo saved ones: the first `edits` of the draft.

    Saving them moves an entry from `source` to `target`.
    """

    source: list[Sequence[dict[str, Any]]]
    target: list[Sequence[dict[str, Any]]]
    edits: int


class MountDraft:
    """An ordered list of edits. Methods that call the engine raise `SvcError` and change nothing then."""

    def __init__(self, client: ProjectClient, mounts: Callable[[], Sequence[BoardMount]]) -> None:
        """Create an empty draft. `mounts` returns those of the file."""
        self._client, self._mounts = client, mounts
        self._written: list[Sequence[dict[str, Any]]] = []
        self._undone: list[Sequence[dict[str, Any]]] = []
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
            if set(apply_edits(mounts, edits)) == set(mounts):
                self.clear()
                return
            plan = await self._plan(edits)
            self.edits, self.plan, self.problem = edits, plan, None

    async def replan(self) -> None:
        """Plan again after a change of the file; `problem` holds the error."""
        async with self._lock:
            if not self.edits:
                return
            try:
                self.plan, self.problem = await self._plan(self.edits), None
            except Unreachable:
                return  # The last plan stays visible. Its digest prevents saving if the file has changed.
            except SvcError as error:
                self.plan, self.problem = None, error

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

    async def _stage(
        self, source: list[Sequence[dict[str, Any]]], target: list[Sequence[dict[str, Any]]]
    ) -> None:
        if source:
            await self._add(parse_edits(source[-1], self._mounts()))
            self._restore = _Restore(source, target, len(self.edits))

    def clear(self) -> None:
        self.edits, self.plan, self.problem, self._restore = (), None, None, None

    async def write(self) -> Literal["", "undo", "redo"]:
        """Save the edits. Return what takes the save back; "" without edits."""
        async with self._lock:
            if self.plan is None:
                if self.problem is not None:
                    raise self.problem
                return ""
            body = {"changes": [edit.document for edit in self.edits], "digest": self.plan["digest"]}
            response = await self._client.call("POST", "/manifest/write", body)
            restore = self._restore
            if restore is not None:
                restore.source.pop()
            if restore is not None and restore.edits == len(self.edits):
                target = restore.target
            else:
                target = self._written
                self._undone.clear()
            target.append(response["inverse"])
            self._before_undo.clear()
            self.clear()
            return "undo" if target is self._written else "redo"

    async def _plan(self, edits: Sequence[MountEdit]) -> Mapping[str, str]:
        body = {"changes": [edit.document for edit in edits]}
        return dict(await self._client.call("POST", "/manifest/plan", body))
