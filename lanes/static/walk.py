"""Selection of the files of an output folder that are served: symlinks, hidden names and special files."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from engine.static_files.names import is_hidden, is_servable


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Files by their path in the bundle (POSIX separators), and the skipped ones.

    `files` has real paths. `notes` are lines for the user about skipped files that may be missed.
    """

    files: dict[str, Path]
    notes: tuple[str, ...]


def walk(root: Path) -> FoundFile:
    """Find all files below `root` to serve. Raises OSError if a folder cannot be read."""
    real_root = Path(os.path.realpath(root))
    files: dict[str, Path] = {}
    notes: list[str] = []
    # Folders to read: path in the bundle, real path, real paths of the folders above it.
    pending: list[tuple[str, Path, frozenset[Path]]] = [("", real_root, frozenset())]
    while pending:
        prefix, folder, parents = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if not is_servable(entry.name):
                    if not is_hidden(entry.name):
                        notes.append(f"left out {prefix + entry.name!r}: its name is not valid in a URL")
                    continue
                name = prefix + entry.name
                path = Path(entry.path)
                if entry.is_symlink():
                    reason = _refusal(path, real_root)
                    if reason:
                        notes.append(f"left out {name}: {reason}")
                        continue
                    path = Path(os.path.realpath(path))
                mode = path.stat().st_mode
                if stat.S_ISDIR(mode):
                    if path == folder or path in parents:
                        notes.append(f"left out {name}: the link leads back to a folder that contains it")
                    else:
                        pending.append((name + "/", path, parents | {folder}))
                elif stat.S_ISREG(mode):
                    files[name] = path
                else:
                    notes.append(f"left out {name}: neither a file nor a folder")
    return FoundFile(files, tuple(sorted(notes)))


def _refusal(link: Path, real_root: Path) -> str:
    """Return why a symlink is not followed; empty if it is."""
    target = Path(os.path.realpath(link))
    if not target.exists():
        return f"the link is broken ({link.readlink()})"
    if not target.is_relative_to(real_root):
        return f"the link leads out of the folder, to {target}"
    if not all(map(is_servable, target.relative_to(real_root).parts)):
        return f"the link leads to a hidden file, {target}"
    return ""
