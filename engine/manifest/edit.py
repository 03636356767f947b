"""Changes of `svc.toml` by a program: what the file would become, and the way to the disk.

Owns which changes there are, that each is allowed by the manifest's rules before anything is written, and
that nothing is written over what somebody else wrote meanwhile. Where in the text a change goes is in
`splice.py`.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

from engine.bucket.durable import rename, sync
from engine.errors import SvcError
from engine.manifest import MANIFEST
from engine.manifest.load import decode, parse, read
from engine.manifest.model import Project, Resource
from engine.manifest.mounts import pattern_problem
from engine.manifest.problems import ManifestError, did_you_mean
from engine.manifest.text_edit import Splice, added, changed, removed, spliced

_MARK = "\ufeff"
"""What some editors put before UTF-8."""


@dataclass(frozen=True, slots=True)
class AddMount:
    """Mount `target` at `pattern` of `resource`. A mount that is there already is no change."""

    resource: str
    pattern: str
    target: str


@dataclass(frozen=True, slots=True)
class ChangeMount:
    """Have the mount `pattern` of `resource` be `to`, and lead to `target`."""

    resource: str
    pattern: str
    to: str
    target: str


@dataclass(frozen=True, slots=True)
class RemoveMount:
    """Remove the mount `pattern` of `resource`."""

    resource: str
    pattern: str


Change = AddMount | ChangeMount | RemoveMount


class EditRefused(SvcError):
    """The change asks for what is not there, or for what the rules of the manifest forbid."""

    code = "manifest"


class ManifestChanged(SvcError):
    """The file is not what it was when the change was planned."""

    code = "conflict"


@dataclass(frozen=True, slots=True)
class Edit:
    """What `svc.toml` in `root` was and what it would become, as bytes."""

    root: Path
    before: bytes
    after: bytes

    @property
    def diff(self) -> str:
        """The unified diff, lines ending in `\\n`; empty where nothing changes."""
        before, after = (
            decode(self.root / MANIFEST, content).splitlines(keepends=True)
            for content in (self.before, self.after)
        )
        lines = unified_diff(before, after, MANIFEST, MANIFEST)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


def plan(root: Path, changes: Sequence[Change]) -> Edit:
    """Return what the manifest in a folder becomes by changes, one after the other. Writes nothing.

    Raises `ManifestError` when the file is broken as it is, `NoProject` without one, and `EditRefused` for
    what can not be done or is not allowed.
    """
    before = read(root / MANIFEST)
    content = before
    for change in changes:
        content = _changed(root, content, change)
    return Edit(root, before, content)


def write(edit: Edit) -> None:
    """Put what was planned on disk, whole; the file keeps owner and permissions, a symbolic link stays one.

    Raises `ManifestChanged` when the file is not what it was, `SvcError` when it can not be written.
    """
    if edit.before == edit.after:
        return
    path = (edit.root / MANIFEST).resolve()
    try:
        with _alone(path.parent):
            if read(edit.root / MANIFEST) != edit.before:
                raise ManifestChanged(
                    f"{MANIFEST} was changed by somebody else meanwhile", "Look at it, and do this once more."
                )
            _replace(path, edit.after)
    except OSError as error:
        hint = "Its folder must be one that you may write in."
        raise SvcError(f"{path} can not be written: {error.strerror}", hint) from error


def _changed(root: Path, content: bytes, change: Change) -> bytes:
    project = parse(root, content)
    resource = _resource(project, change.resource)
    text = decode(root / MANIFEST, content)
    splices: tuple[Splice, ...]
    mounts = {mount.pattern: mount.target for mount in resource.mounts}
    if isinstance(change, AddMount):
        _check(project, change.pattern, change.target)
        if change.pattern in mounts:
            if mounts[change.pattern] == change.target:
                return content
            message = f"{change.resource} has {mounts[change.pattern]} mounted at {change.pattern} already"
            raise EditRefused(
                message,
                "Change that mount (`svc mount add --replace`), or take another path.",
                code="conflict",
            )
        splices = (added(text, change.resource, change.pattern, change.target),)
        mounts[change.pattern] = change.target
    else:
        if change.pattern not in mounts:
            hint = did_you_mean(change.pattern, list(mounts)) or f"{change.resource} has no mounts."
            raise EditRefused(f"{change.resource} has no mount {change.pattern}", hint)
        del mounts[change.pattern]
        if isinstance(change, RemoveMount):
            splices = (removed(text, change.resource, change.pattern),)
        else:
            _check(project, change.to, change.target)
            if change.to in mounts:
                message = f"{change.resource} has {mounts[change.to]} mounted at {change.to} already"
                raise EditRefused(message, "Take another path.", code="conflict")
            splices = changed(text, change.resource, change.pattern, change.to, change.target)
            mounts[change.to] = change.target
    return _checked(root, content, splices, project, replace(resource, mounts=()), mounts)


def _resource(project: Project, name: str) -> Resource:
    found = project.resources.get(name)
    if found is None:
        raise EditRefused(f'there is no Resource "{name}"', did_you_mean(name, list(project.resources)))
    return found


def _check(project: Project, pattern: str, target: str) -> None:
    """Refuse what could not be written; what must hold between mounts is seen in the whole."""
    wrong = pattern_problem(pattern)
    if wrong is not None:
        raise EditRefused(*wrong)
    _resource(project, target)


def _checked(
    root: Path,
    content: bytes,
    splices: Sequence[Splice],
    project: Project,
    resource: Resource,
    mounts: dict[str, str],
) -> bytes:
    """Make a change, and refuse it unless the manifest then says what it said, but for these mounts."""
    text = content.decode("utf-8")
    mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    for splice in splices:
        text = spliced(text, splice)
    after = (mark + text).encode()
    try:
        made = parse(root, after)
    except ManifestError as error:
        problem = error.problems[0]
        raise EditRefused(problem.message, problem.hint) from error
    expected = {name: _meaning(each) for name, each in project.resources.items()}
    expected[resource.name] = (resource, mounts)
    if {name: _meaning(each) for name, each in made.resources.items()} != expected:
        raise EditRefused(f"{MANIFEST} is written in a way that svc can not change", "Edit it by hand.")
    return after


def _meaning(resource: Resource) -> tuple[Resource, dict[str, str]]:
    """Return a Resource without mounts, and its mounts whatever their order."""
    return replace(resource, mounts=()), {mount.pattern: mount.target for mount in resource.mounts}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other programs of ours from changing a manifest in this folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file, under a name that `ignore.py` says is nobody's source, and take its place."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            was = path.stat()
            with suppress(PermissionError):  # who may not give files away is the owner already, or may write
                os.fchown(descriptor, was.st_uid, was.st_gid)
            os.fchmod(descriptor, was.st_mode & 0o7777)
            sync(descriptor)
        rename(Path(name), path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
