"""Edits of `svc.toml`, its mounts, `egress` and new resources: planned, validated and written atomically.

An edit is refused if the resulting manifest is invalid, or if the file has changed since the edit was
planned. Each change replaces one span of the text and preserves all other bytes. TOML can express `mounts` as
an inline table, as a table with a header, or as dotted keys; they may also be missing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import chain, starmap
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, StringConstraints

from engine.errors import SvcError
from engine.files.atomic import locked_folder, sync_folder, write_atomic
from engine.manifest import MANIFEST
from engine.manifest.egress import parse_rule
from engine.manifest.load import decode, parse, read
from engine.manifest.model import Mount, Project, Resource, targets
from engine.manifest.path_rules import pattern_problem
from engine.manifest.problems import (
    STRING,
    KeyPath,
    ManifestError,
    Pair,
    Positions,
    did_you_mean,
    find_positions,
)
from engine.manifest.schema import ResourceTable
from engine.manifest.validate import cycle_findings, mount_findings, parses

ShortText = Annotated[str, StringConstraints(max_length=2048)]
_INDENT = re.compile(r"[ \t]*")
_MARK = "\ufeff"
"""The byte order mark that some editors write before UTF-8."""


class Splice(NamedTuple):
    """Replacement of the text from offset `start` up to `end` by `text`."""

    start: int
    end: int
    text: str


class _ChangeModel:
    """A change of the control API: pydantic parses it from JSON with exactly these members."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(
        extra="forbid", json_schema_extra=lambda schema: schema["required"].append("op")
    )


@dataclass(frozen=True, slots=True)
class AddMount(_ChangeModel):
    """Mount `target` at `pattern` of `resource`. An existing equal mount stays as it is."""

    resource: ShortText
    pattern: ShortText
    target: ShortText
    op: Literal["add"] = "add"


@dataclass(frozen=True, slots=True)
class ChangeMount(_ChangeModel):
    """Change the pattern of the mount `pattern` of `resource` to `to`, and its target to `target`."""

    resource: ShortText
    pattern: ShortText
    to: ShortText
    target: ShortText
    op: Literal["change"] = "change"


@dataclass(frozen=True, slots=True)
class RemoveMount(_ChangeModel):
    """Remove the mount `pattern` of `resource`."""

    resource: ShortText
    pattern: ShortText
    op: Literal["remove"] = "remove"


@dataclass(frozen=True, slots=True)
class AddOrigin(_ChangeModel):
    """Allow calls of `resource` to `origin`, an entry of `egress`. An equal entry stays as it is."""

    resource: ShortText
    origin: ShortText
    op: Literal["add-origin"] = "add-origin"


@dataclass(frozen=True, slots=True)
class RemoveOrigin(_ChangeModel):
    """Remove the entry `origin` of `egress` of `resource`."""

    resource: ShortText
    origin: ShortText
    op: Literal["remove-origin"] = "remove-origin"


MountChange = AddMount | ChangeMount | RemoveMount
OriginChange = AddOrigin | RemoveOrigin
Change = MountChange | OriginChange


class EditRefused(SvcError):
    """The change names a missing object, or breaks the rules of the manifest."""

    code = "manifest"


class ManifestChanged(SvcError):
    """The file has changed since the edit was planned."""

    code = "conflict"


@dataclass(frozen=True, slots=True)
class ManifestEdit:
    """Content of `svc.toml` in `root` before and after an edit, and the lines of context in its diff."""

    root: Path
    before: bytes
    after: bytes
    context: int = 3

    @property
    def diff(self) -> str:
        """The unified diff, lines ending in `\\n`; empty if nothing changes."""
        before, after = (
            decode(self.root / MANIFEST, content).splitlines(keepends=True)
            for content in (self.before, self.after)
        )
        lines = unified_diff(before, after, MANIFEST, MANIFEST, n=self.context)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def plan(root: Path, changes: Sequence[Change]) -> ManifestEdit:
    """Return the edit that applies these changes in order to the manifest in a folder. Writes nothing.

    Raises `ManifestError` if the file is invalid, `NoProject` if it is missing, and `EditRefused` if a change
    is impossible or not allowed.
    """
    before = read(root / MANIFEST)
    content = before
    for change in changes:
        content = _changed(root, content, change)
    return ManifestEdit(root, before, content)


def plan_resources(
    root: Path, tables: Mapping[str, Mapping[str, str | bool]], mount: AddMount | None
) -> ManifestEdit:
    """Return the edit that appends the tables of new resources, and mounts one. Writes nothing.

    Raises as `plan`.
    """
    before = read(root / MANIFEST)
    project = parse(root, before)
    if taken := next((name for name in tables if name in project.resources), None):
        hint = "Choose another name."
        raise EditRefused(f"{MANIFEST} has a resource {taken} already", hint, code="conflict")
    content = with_tables(before, tables)
    try:
        edited = parse(root, content)
    except ManifestError as error:
        raise EditRefused(error.problems[0].message, error.problems[0].hint) from error
    if {key: each for key, each in edited.resources.items() if key not in tables} != dict(project.resources):
        raise EditRefused(f"svc cannot edit {MANIFEST} in the form it is written in", "Edit it by hand.")
    return ManifestEdit(root, before, content if mount is None else _changed(root, content, mount))


def with_tables(before: bytes, tables: Mapping[str, Mapping[str, str | bool]]) -> bytes:
    """Return the content of a manifest with the tables of resources at its end."""
    lines = []
    for name, keys in tables.items():
        pairs = (f"{key} = {json.dumps(value)}" for key, value in keys.items())
        lines += ["", f"[resource.{name}]", *pairs]
    lines.append("")
    ending = b"\r\n" if b"\r\n" in before else b"\n"
    return before.rstrip() + ending + ending.join(line.encode() for line in lines)


def write(edit: ManifestEdit) -> None:
    """Write an edit atomically; owner, permissions and a symbolic link are preserved.

    Raises `ManifestChanged` if the file has changed since, `SvcError` if it cannot be written.
    """
    if edit.before == edit.after:
        return
    path = (edit.root / MANIFEST).resolve()
    try:
        with locked_folder(path.parent):
            if read(edit.root / MANIFEST) != edit.before:
                hint = "Check the file, then try again."
                raise ManifestChanged(f"{MANIFEST} was changed by another program meanwhile", hint)
            write_atomic(path, edit.after, sync=True, like=path.stat())
            sync_folder(path.parent)
    except OSError as error:
        hint = "Check the permissions of its folder."
        raise SvcError(f"cannot write {path}: {error.strerror}", hint) from error


def _changed(root: Path, content: bytes, change: Change) -> bytes:
    """Return the content after a change. Raises `EditRefused` if it would have another effect, too."""
    project = parse(root, content)
    expected = _applied(project, change)
    if expected == project:
        return content
    text = content.decode("utf-8")
    byte_order_mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    positions = find_positions(decode(root / MANIFEST, content))
    table: KeyPath = ("resource", change.resource)
    splices: tuple[Splice, ...]
    match change:
        case AddMount(_, pattern, target):
            splices = (_mount_added(positions, table, pattern, target),)
        case ChangeMount(_, pattern, to, target):
            pair = positions.pairs[*table, "mounts", pattern]
            key = Splice(pair.parts[-1], pair.key_end, _quoted(to))
            splices = Splice(pair.value, pair.end, _quoted(target)), key  # The later position first.
        case RemoveMount(_, pattern):
            splices = (_mount_removed(positions, table, pattern),)
        case AddOrigin(_, origin):
            splices = (_origin_added(positions, table, origin),)
        case RemoveOrigin(resource, origin):
            entries = _entries(positions, table)
            entry = entries[project.resources[resource].egress.index(origin)]
            splices = (_without(positions, entries, entry, positions.pairs[entry.base]),)
    for splice in splices:
        text = _spliced(text, splice)
    after = (byte_order_mark + text).encode()
    try:
        edited = parse(root, after)
    except ManifestError as error:
        problem = error.problems[0]
        raise EditRefused(problem.message, problem.hint) from error
    if list(map(_meaning, edited.resources.values())) != list(map(_meaning, expected.resources.values())):
        raise EditRefused(f"svc cannot edit {MANIFEST} in the form it is written in", "Edit it by hand.")
    return after


def _applied(project: Project, change: Change) -> Project:
    """Return a project after a change. Raises `EditRefused`."""
    resource = _resource(project, change.resource)
    if isinstance(change, OriginChange):
        resource = replace(resource, egress=_egress_after(resource, change))
    else:
        mounts = _mounts_after(project, change)
        resource = replace(resource, mounts=tuple(starmap(Mount, mounts.items())))
    return replace(project, resources={**project.resources, resource.name: resource})


def _mounts_after(project: Project, change: MountChange) -> dict[str, str]:
    """Return the mounts of a resource after a change: targets by pattern. Raises `EditRefused`."""
    mounts = targets(_resource(project, change.resource).mounts)
    if not isinstance(change, AddMount) and change.pattern not in mounts:
        hint = did_you_mean(change.pattern, list(mounts)) or f"{change.resource} has no mounts."
        raise EditRefused(f"{change.resource} has no mount {change.pattern}", hint)
    if isinstance(change, RemoveMount):
        del mounts[change.pattern]
        return mounts
    if isinstance(change, AddMount):
        pattern, conflict = change.pattern, mounts.get(change.pattern) not in (None, change.target)
        hint = "Change that mount (`svc mount add --replace`), or choose another path."
    else:
        pattern, conflict = change.to, change.to in mounts and change.to != change.pattern
        hint = "Choose another path."
    problem = pattern_problem(pattern)
    if problem is not None:
        raise EditRefused(*problem)
    _resource(project, change.target)
    if conflict:
        message = f"{change.resource} has {mounts[pattern]} mounted at {pattern} already"
        raise EditRefused(message, hint, code="conflict")
    renamed = {pattern if key == change.pattern else key: target for key, target in mounts.items()}
    return renamed | {pattern: change.target}


def redrawn(project: Project, changes: Sequence[Change]) -> Project:
    """Return a project after changes of its mounts. Raises `EditRefused`."""
    for change in changes:
        if isinstance(change, OriginChange):
            raise EditRefused("egress changes with a deploy only", f"Edit {MANIFEST} and run `svc deploy`.")
        project = _applied(project, change)
        tables = {
            name: ResourceTable.model_construct(mounts=targets(each.mounts), fallback=each.fallback or None)
            for name, each in project.resources.items()
        }
        findings = mount_findings(change.resource, tables[change.resource], list(tables))
        for _, message, hint in chain(findings, cycle_findings(tables)):
            raise EditRefused(message, hint)
    return project


def mounts_diff(before: Project, after: Project) -> str:
    """Return the unified diff of the mounts of two projects, in the form of svc.toml."""
    return ManifestEdit(Path(), _mounts(before), _mounts(after), context=1).diff


def _mounts(project: Project) -> bytes:
    lines = []
    for name, resource in project.resources.items():
        mounts = ", ".join(f'"{each.pattern}" = "{each.target}"' for each in resource.mounts)
        lines += [f"[resource.{name}]\n", f"mounts = {{ {mounts} }}\n" if mounts else "", "\n"]
    return "".join(lines).encode()


def _egress_after(resource: Resource, change: OriginChange) -> tuple[str, ...]:
    """Return the `egress` of a resource after a change. Raises `EditRefused`."""
    entries = list(resource.egress)
    if isinstance(change, RemoveOrigin):
        if change.origin not in entries:
            raise EditRefused(f"{resource.name} has no egress {change.origin}", "It was removed already.")
        entries.remove(change.origin)
    elif change.origin not in entries:
        if not parses(parse_rule, change.origin):
            hint = "Write https://HOST or http://HOST:PORT."
            raise EditRefused(f'"{change.origin}" is not an origin', hint)
        entries.append(change.origin)
    return tuple(entries)


def _resource(project: Project, name: str) -> Resource:
    resource = project.resources.get(name)
    if resource is None:
        raise EditRefused(f'unknown resource "{name}"', did_you_mean(name, list(project.resources)))
    return resource


def _meaning(resource: Resource) -> tuple[Resource, dict[str, str]]:
    """Return a resource without mounts, and its mounts, in a form that ignores the order of both lists."""
    ordered = replace(resource, mounts=(), egress=tuple(sorted(resource.egress)))
    return ordered, targets(resource.mounts)


def inverse(before: Project, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes that undo `changes`, which apply to `before` in order.

    A restored mount or origin comes last and loses the comment of its line.
    """
    undone: list[Change] = []
    for change in changes:
        resource = before.resources[change.resource]
        mounts = targets(resource.mounts)
        match change:
            case AddMount(name, pattern) if pattern not in mounts:
                undone.append(RemoveMount(name, pattern))
            case ChangeMount(name, pattern, to):
                undone.append(ChangeMount(name, to, pattern, mounts[pattern]))
            case RemoveMount(name, pattern):
                undone.append(AddMount(name, pattern, mounts[pattern]))
            case AddOrigin(name, origin) if origin not in resource.egress:
                undone.append(RemoveOrigin(name, origin))
            case RemoveOrigin(name, origin):
                undone.append(AddOrigin(name, origin))
        before = _applied(before, change)
    return tuple(reversed(undone))


def _mount_added(positions: Positions, table: KeyPath, pattern: str, target: str) -> Splice:
    """Return the edit that adds a mount after the existing ones, or after the keys of its resource."""
    text, mounts = positions.text, (*table, "mounts")
    mount = f"{_quoted(pattern)} = {_quoted(target)}"
    if mounts in positions.pairs:
        pair, elements = positions.pairs[mounts], _inside(positions, mounts)
        if elements:
            return Splice(elements[-1].end, elements[-1].end, f", {mount}")
        blank = text[pair.value + 1 : pair.end - 1]
        return Splice(pair.end - 1, pair.end - 1, f"{mount}{blank}" if blank else f" {mount} ")
    if mounts in positions.headers:
        siblings = _below(positions, mounts)
        if not siblings:
            header = positions.headers[mounts]
            return _line(text, header, mount, text.rfind("\n", 0, header) + 1)
        return _line(text, siblings[-1].end, mount, siblings[-1].start)
    if dotted := _below(positions, mounts):
        return _after(positions, dotted[-1], mounts, mount)
    return _after(positions, _below(positions, table)[-1], table, f"mounts = {{ {mount} }}")


def _mount_removed(positions: Positions, table: KeyPath, pattern: str) -> Splice:
    """Return the edit that removes a mount, and the key `mounts` if it would be empty.

    A comment on the mount's own line is removed; a comment after an inline table stays.
    """
    text, mounts = positions.text, (*table, "mounts")
    pair = positions.pairs[*mounts, pattern]
    if pair.base not in positions.pairs:
        return _without_line(text, pair)
    siblings, holder = _inside(positions, pair.base), positions.pairs.get(mounts, pair)
    after = text[holder.end : _line_end(text, holder.end)].strip()
    if after and len(siblings) == 1 and holder.base not in positions.pairs:
        return Splice(holder.value, holder.end, "{}")
    return _without(positions, siblings, pair, holder)


def _origin_added(positions: Positions, table: KeyPath, origin: str) -> Splice:
    """Return the edit that adds an entry to `egress`: first in an array of several lines, else last."""
    holder = positions.pairs.get((*table, "egress"))
    if holder is None:
        return _after(positions, _below(positions, table)[-1], table, f"egress = [{_quoted(origin)}]")
    entries = _entries(positions, table)
    if not entries:
        return Splice(holder.value, holder.end, f"[{_quoted(origin)}]")
    start = entries[0].start
    line = positions.text.rfind("\n", 0, start) + 1
    if line <= holder.value:
        return Splice(entries[-1].end, entries[-1].end, f", {_quoted(origin)}")
    indent = positions.text[line:start]
    return Splice(
        start, start, f"{_quoted(origin)},\n{indent}" if indent.isspace() else f"{_quoted(origin)}, "
    )


def _entries(positions: Positions, table: KeyPath) -> list[Pair]:
    """Return the entries of `egress` as pairs without a key."""
    path, entries = (*table, "egress"), list[Pair]()
    while (start := positions.first.get((*path, len(entries)))) is not None:
        match = STRING.match(positions.text, start, positions.pairs[path].end)
        assert match is not None  # The entries of a valid manifest are strings.
        entries.append(Pair(path, (start,), start, start, match.end()))
    return entries


def _spliced(original: str, splice: Splice) -> str:
    """Return the original text with an edit whose offsets refer to `original` with line ends `\\n`.

    New lines take the line end of the line before them, or else of the line after them.
    """
    returns = [match.start() - index for index, match in enumerate(re.finditer("\r\n", original))]
    start, end = (offset + sum(at < offset for at in returns) for offset in splice[:2])
    text = splice.text
    if "\n" in text:
        before = original.rfind("\n", 0, start)
        ending = before if before >= 0 else original.find("\n")
        if ending > 0 and original[ending - 1] == "\r":
            text = text.replace("\n", "\r\n")
    return original[:start] + text + original[end:]


def _below(positions: Positions, path: KeyPath) -> list[Pair]:
    """Return the pairs that belong to the table `path`, relative to it or to a table around it."""
    has_table = path in positions.headers or path in positions.pairs
    bases = {path} if has_table else {path[:length] for length in range(len(path) + 1)}
    below = [pair for key, pair in positions.pairs.items() if key[: len(path)] == path != key]
    return sorted((pair for pair in below if pair.base in bases), key=attrgetter("start"))


def _inside(positions: Positions, table: KeyPath) -> list[Pair]:
    return sorted((pair for pair in positions.pairs.values() if pair.base == table), key=attrgetter("start"))


def _after(positions: Positions, last: Pair, table: KeyPath, key: str) -> Splice:
    """Return the edit that adds a pair of a table after its pair `last`, in the same form."""
    key = positions.text[last.start : last.parts[len(table) - len(last.base)]] + key
    if last.base in positions.pairs:
        return Splice(last.end, last.end, f", {key}")
    return _line(positions.text, last.end, key, last.start)


def _line(text: str, behind: int, key: str, like: int) -> Splice:
    """Return the edit that adds a line for a pair below `behind`, indented as the line of `like`."""
    end = _line_end(text, behind)
    indent = _INDENT.match(text, text.rfind("\n", 0, like) + 1)
    line = (indent.group() if indent else "") + key
    return Splice(end + 1, end + 1, f"{line}\n") if end < len(text) else Splice(end, end, f"\n{line}")


def _without_line(text: str, pair: Pair) -> Splice:
    begin, end = text.rfind("\n", 0, pair.start) + 1, _line_end(text, pair.end)
    return Splice(begin, end + 1, "") if end < len(text) else Splice(max(begin - 1, 0), end, "")


def _without(positions: Positions, siblings: list[Pair], pair: Pair, holder: Pair) -> Splice:
    """Return the edit that removes an element of `holder`, a table or array, and `holder` if it was all."""
    index = siblings.index(pair)
    if index < len(siblings) - 1:
        return Splice(pair.start, siblings[index + 1].start, "")
    if index:
        return Splice(siblings[index - 1].end, pair.end, "")
    if holder.base in positions.pairs:
        return _without(positions, _inside(positions, holder.base), holder, positions.pairs[holder.base])
    return _without_line(positions.text, holder)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _quoted(text: str) -> str:
    """Quote a text that has no quotes, backslashes or control characters."""
    return f'"{text}"'
