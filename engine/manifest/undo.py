"""Inverse changes of manifest edits."""

from collections.abc import Sequence

from engine.manifest.edit import AddMount, Change, ChangeMount, RemoveMount
from engine.manifest.model import Project


def inverse(before: Project, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes that undo `changes`, which apply to `before` in order.

    A restored mount comes last and loses the comment of its line.
    """
    mounts = {
        name: {mount.pattern: mount.target for mount in resource.mounts}
        for name, resource in before.resources.items()
    }
    undone: list[Change] = []
    for change in changes:
        own = mounts[change.resource]
        if isinstance(change, AddMount):
            if change.pattern not in own:
                undone.append(RemoveMount(change.resource, change.pattern))
            own[change.pattern] = change.target
            continue
        target = own.pop(change.pattern)
        if isinstance(change, RemoveMount):
            undone.append(AddMount(change.resource, change.pattern, target))
        else:
            undone.append(ChangeMount(change.resource, change.to, change.pattern, target))
            own[change.to] = change.target
    return tuple(reversed(undone))
