"""Edits of mounts, and the mounts that result from them. Does not import Textual.

The engine validates patterns and computes the change of svc.toml.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from screens.board.project import BoardMount, Manifest
from svc_tui.client import SvcError

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
            return {
                "op": "add",
                "resource": mount.source,
                "pattern": mount.pattern,
                "target": mount.target,
            }
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
