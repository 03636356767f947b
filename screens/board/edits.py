"""Edits of mounts that are drawn and not written yet, and what the picture is with them.

Owns which targets an edge may have. What svc.toml becomes, and whether a pattern is one, the engine says.
Imports no Textual.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from screens.board.project import Manifest, Mount
from svc_tui.client import SvcError

Mark = Literal["", "added", "removed"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit: `before` is the mount that goes, `after` the one that comes; a change has both."""

    before: Mount | None
    after: Mount | None

    @property
    def document(self) -> dict[str, Any]:
        """The edit as the control API takes it."""
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
class Shown:
    """A mount in the picture, and what an edit does with it."""

    mount: Mount
    mark: Mark = ""


def read(documents: Iterable[dict[str, Any]], mounts: Sequence[Mount]) -> list[Edit]:
    """Return edits that the control API wrote, made of these mounts one after the other.

    Raises `SvcError` where they are about a mount that is not there any more.
    """
    edits: list[Edit] = []
    for change in documents:
        before = None
        if change["op"] != "add":
            held = {(mount.source, mount.pattern): mount for mount in applied(mounts, edits)}
            before = held.get((change["resource"], change["pattern"]))
            if before is None:
                raise SvcError(
                    f"{change['resource']} has no mount {change['pattern']} any more",
                    "svc.toml was changed since; edit it by hand.",
                )
        after = None
        if change["op"] != "remove":
            after = Mount(change["resource"], change.get("to", change["pattern"]), change["target"])
        edits.append(Edit(before, after))
    return edits


def applied(mounts: Iterable[Mount], edits: Iterable[Edit]) -> list[Mount]:
    """Return the mounts that there are after edits."""
    found = list(mounts)
    for edit in edits:
        if edit.before in found:
            at = found.index(edit.before)
            found[at : at + 1] = [edit.after] if edit.after is not None else []
        elif edit.after is not None and edit.after not in found:
            found.append(edit.after)
    return found


def shown(mounts: Sequence[Mount], edits: Sequence[Edit]) -> list[Shown]:
    """Return the mounts to draw: those that go are there until they are gone."""
    after = applied(mounts, edits)
    kept = [Shown(mount, "" if mount in after else "removed") for mount in mounts]
    return kept + [Shown(mount, "added") for mount in after if mount not in mounts]


def targets(manifest: Manifest, mounts: Sequence[Mount], source: str) -> dict[str, str]:
    """Return why each Resource can not be mounted at `source`; empty for those that can."""
    into: dict[str, list[str]] = {}
    for mount in mounts:
        into.setdefault(mount.source, []).append(mount.target)
    found = {}
    for name in manifest.resources:
        way = _way(into, name, source)
        if name == source:
            found[name] = "a Resource is not mounted into itself"
        elif way:
            found[name] = f"that would go round in a circle: {' → '.join([source, *way])}"
        else:
            found[name] = ""
    return found


def _way(into: dict[str, list[str]], begin: str, end: str) -> list[str]:
    """Return the Resources on the shortest way along mounts from one to another, both included."""
    ways = [[begin]]
    seen = {begin}
    for way in ways:
        if way[-1] == end:
            return way
        for target in into.get(way[-1], ()):
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])
    return []


def default_pattern(mounts: Iterable[Mount], source: str, target: str) -> str:
    """Return a pattern that `source` has no mount at: `/<target>/*`, or the like."""
    taken = {mount.pattern for mount in mounts if mount.source == source}
    pattern, count = f"/{target}/*", 2
    while pattern in taken:
        pattern, count = f"/{target}-{count}/*", count + 1
    return pattern
