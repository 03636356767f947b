"""Which files of a Project are nobody's sources: editors' and tools' own, and what `.gitignore` names.

Owns that one rule; what starts a build and what an unchanged Resource is both follow from it.
"""

from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORED = (
    *(".git/", ".hg/", ".svc/", ".venv/", "node_modules/", "target/", "__pycache__/"),
    *("*.swp", "*.swx", "*~", ".#*", "#*#", "4913", ".DS_Store", "*.tmp", "*.part"),
)


class IgnoreRules:
    """The rule for one Project folder, as its `.gitignore` was when this was made."""

    def __init__(self, root: Path) -> None:
        self._root = root
        try:
            own = (root / ".gitignore").read_text(errors="replace").splitlines()
        except OSError:
            own = []
        self._spec = GitIgnoreSpec.from_lines([*IGNORED, *own])

    def __call__(self, path: Path) -> bool:
        """Whether this path, inside the Project folder, is ignored."""
        try:
            return self._spec.match_file(path.relative_to(self._root).as_posix())
        except ValueError:
            return False

    def folder(self, path: Path) -> bool:
        """Whether everything in this folder is ignored."""
        try:
            return self._spec.match_file(path.relative_to(self._root).as_posix() + "/")
        except ValueError:
            return False
