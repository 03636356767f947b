"""Ignore rules for a project's files: files of editors and tools, and patterns of `.gitignore`.

The watcher and the build cache both use them.
"""

from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORED = (
    ".git/",
    ".hg/",
    ".svc/",
    ".venv/",
    "node_modules/",
    "target/",
    "__pycache__/",
    "*.swp",
    "*.swx",
    "*~",
    ".#*",
    "#*#",
    "4913",
    ".DS_Store",
    "*.tmp",
    "*.part",
)


class IgnoreRules:
    """Rules of one project folder, with its `.gitignore` as read at construction."""

    def __init__(self, root: Path) -> None:
        self._root = root
        try:
            lines = (root / ".gitignore").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        self._spec = GitIgnoreSpec.from_lines([*IGNORED, *lines])

    def __call__(self, path: Path) -> bool:
        """Return whether a path inside the project folder is ignored."""
        try:
            return self._spec.match_file(path.relative_to(self._root).as_posix())
        except ValueError:
            return False

    def folder(self, path: Path) -> bool:
        """Return whether everything in a folder is ignored."""
        try:
            return self._spec.match_file(path.relative_to(self._root).as_posix() + "/")
        except ValueError:
            return False
