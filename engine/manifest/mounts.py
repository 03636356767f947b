"""Validation of mounts: patterns that can match, targets that exist, no cycles."""

from collections.abc import Iterator, Mapping

from engine.manifest.model import normal_path
from engine.manifest.path_rules import pattern_problem
from engine.manifest.positions import KeyPath
from engine.manifest.problems import did_you_mean
from engine.manifest.schema import ResourceTable, is_name

Finding = tuple[KeyPath, str, str]
"""Key path, message and hint of a mistake."""

_TARGET = "A mount leads to another resource."


def mount_findings(name: str, table: ResourceTable, names: list[str]) -> Iterator[Finding]:
    """Yield the mistakes in one resource's mounts; `names` are all resources of the file."""
    patterns: dict[str, str] = {}
    for pattern, target in table.mounts.items():
        key_path = ("resource", name, "mounts", pattern)
        problem = pattern_problem(pattern)
        twin = patterns.setdefault(normal_path(pattern), pattern)
        if problem is not None:
            yield key_path, *problem
        elif twin != pattern:
            yield key_path, f'"{pattern}" is the same path as "{twin}"', "Remove one of them."
        if target == name:
            yield key_path, f"{name} is mounted into itself", _TARGET
        elif target not in names:
            candidates = [other for other in names if other != name and is_name(other)]
            table_hint = f"Add a table [resource.{target}]." if is_name(target) else _TARGET
            hint = did_you_mean(target, candidates) or table_hint
            yield key_path, f'unknown resource "{target}"', hint


def cycle_findings(tables: Mapping[str, ResourceTable]) -> Iterator[Finding]:
    """Yield each cycle of mounts once, at the mount that closes it."""
    visited: set[str] = set()
    for start in tables:
        trail = [start]
        iterators = [_targets(start, tables)]
        while trail:
            step = next(iterators[-1], None)
            if step is None:
                visited.add(trail.pop())
                iterators.pop()
                continue
            pattern, target = step
            if target in trail:
                cycle = " → ".join([*trail[trail.index(target) :], target])
                key_path = ("resource", trail[-1], "mounts", pattern)
                yield (
                    key_path,
                    f"the mounts form a cycle: {cycle}",
                    "Remove one mount of the cycle.",
                )
            elif target not in visited:
                trail.append(target)
                iterators.append(_targets(target, tables))


def _targets(name: str, tables: Mapping[str, ResourceTable]) -> Iterator[tuple[str, str]]:
    """Yield pattern and target of a resource's valid mounts, each target once."""
    targets = {name}
    for pattern, target in tables[name].mounts.items():
        if target in tables and target not in targets:
            targets.add(target)
            yield pattern, target
