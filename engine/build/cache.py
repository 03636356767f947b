"""Cache of build results by their inputs.

Notes lie at `builds/<Resource>/<key>.json` in the cache folder. An invalid note, or one whose files are
gone, counts as missing. Builds with too many inputs are not cached.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.artifact import Artifact, ComponentArtifact, StaticBundle
from engine.build.inputs import TooManyInputs, input_digest
from engine.files.atomic import write_atomic
from engine.files.digest import content_digest
from engine.lane import BuildMode
from engine.manifest.lanes import build_settings
from engine.manifest.model import Resource
from engine.static_files.bundle import BundleCorrupt, has_blobs, read_index

FORMAT = 1
MAX_NOTES = 8
"""Notes per resource and mode. Several let a switch between branches hit the cache."""

_SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM.*|COLORTERM|COLUMNS|LINES|NO_COLOR|SSH_.*|TMUX.*|STY|WINDOW.*|VTE_.*|KITTY_.*"
    r"|ITERM_.*|WEZTERM_.*|XDG_SESSION.*|DISPLAY|WAYLAND_DISPLAY|DBUS_.*|INVOCATION_ID|JOURNAL_STREAM"
    r"|MAKEFLAGS|MAKELEVEL|MFLAGS|PYTEST_.*|SVC_DEBUG"
)
"""Variables of a terminal session, which do not affect builds."""


@dataclass(frozen=True, slots=True)
class PendingBuild:
    """A running build: the key of its inputs and its start time (Unix epoch, ns)."""

    key: str
    time_ns: int


class BuildCache:
    """The notes of one cache folder. Methods block and do not raise."""

    def __init__(self, cache: Path, environ: Mapping[str, str]) -> None:
        """`environ` is the environment of build commands and toolchains, a part of every key."""
        self._folder = cache / "builds"
        variables = sorted((name, value) for name, value in environ.items() if not _SESSION.fullmatch(name))
        self._environ = sha256(repr(variables).encode(errors="surrogateescape")).hexdigest()

    def key(self, resource: Resource, root: Path, mode: BuildMode) -> str | None:
        """Return the key of a build without the lane's identity; `None` if its inputs cannot be read."""
        try:
            files = input_digest(resource, root)
        except (OSError, TooManyInputs):
            return None
        inputs = repr(
            (FORMAT, self._environ, str(root), resource.name, mode, build_settings(resource), files)
        )
        return sha256(inputs.encode(errors="surrogateescape")).hexdigest()

    def find(self, resource: Resource, root: Path, mode: BuildMode, identity: str) -> Artifact | None:
        """Return the artifact of an earlier build with equal inputs, if its files still exist."""
        key = self.key(resource, root, mode)
        if key is None:
            return None
        try:
            note = json.loads(self._note(resource, root, mode, key, identity).read_bytes())
            if any(content_digest(Path(path)) != digest for path, digest in note["inputs"].items()):
                return None
            return _decode(note, mode)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BundleCorrupt):
            return None

    def store(
        self,
        resource: Resource,
        root: Path,
        mode: BuildMode,
        identity: str,
        pending: PendingBuild,
        artifact: Artifact,
    ) -> None:
        """Store a build, unless its inputs have changed since it started."""
        with suppress(OSError):
            note = _encode(artifact, pending.time_ns)
            if note is None or pending.key != self.key(resource, root, mode):
                return
            path = self._note(resource, root, mode, pending.key, identity)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(note).encode())
            notes = sorted(path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for old in notes[:-MAX_NOTES]:
                old.unlink(missing_ok=True)

    def _note(self, resource: Resource, root: Path, mode: BuildMode, key: str, identity: str) -> Path:
        scope = sha256(repr((str(root), resource.name, mode)).encode(errors="surrogateescape")).hexdigest()
        return self._folder / scope[:32] / f"{sha256(f'{key} {identity}'.encode()).hexdigest()}.json"


def _encode(artifact: Artifact, began_ns: int) -> dict[str, Any] | None:
    """Return the content of a note; `None` if the artifact cannot be cached. Raises OSError."""
    if isinstance(artifact, StaticBundle):
        return {"folder": str(artifact.folder), "digest": artifact.digest, "inputs": {}}
    if not isinstance(artifact, ComponentArtifact):
        return None
    if any(path.stat().st_mtime_ns >= began_ns for path in artifact.inputs):
        return None
    return {
        "component": str(artifact.component),
        "digest": artifact.digest,
        "script": artifact.script,
        "source_map": artifact.source_map.decode() if artifact.source_map is not None else None,
        "inputs": {str(path): content_digest(path) for path in sorted(artifact.inputs)},
    }


def _decode(note: dict[str, Any], mode: BuildMode) -> Artifact | None:
    """Return the artifact of a note; `None` if its files are incomplete or, in deploy mode, altered."""
    if "folder" in note:
        image = StaticBundle(Path(note["folder"]), note["digest"])
        blobs = {encoding for file in read_index(image) for encoding in file.encodings.values()}
        return image if has_blobs(image.folder, blobs, verify=mode == "deploy") else None
    component = Path(note["component"])
    if content_digest(component) != note["digest"]:
        return None
    source_map = note["source_map"].encode() if note["source_map"] is not None else None
    inputs = frozenset(map(Path, note["inputs"]))
    return ComponentArtifact(component, note["digest"], note["script"], source_map, inputs)
