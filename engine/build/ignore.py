"""Ignore rules for a project's files: files of editors and tools, and patterns of `.gitignore`.

The watcher and the build cache both use them.
"""

from contextlib import suppress
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORED = (
    ".git/", ".hg/", ".svc/", ".venv/", "node_modules/", "target/", "__pycache__/", "*.swp", "*.swx", "*~",
    ".#*", "#*#", "4913", ".DS_Store", "*.tmp", "*.part",
)  # fmt: skip


class IgnoreRules:
    """Rules of one project folder: those above, and those of the `.gitignore` files in it, each read once."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self.forget()

    def forget(self) -> None:
        """Read the files again: one of them has changed."""
        self._specs = {"": self._read("", IGNORED)}
        self._folders = {"": False}

    def __call__(self, path: Path) -> bool:
        """Return whether a path inside the project folder is ignored."""
        return str(path).startswith(self._root) and self._ignores(str(path)[len(self._root) :], "")

    def folder(self, path: Path) -> bool:
        """Return whether everything in a folder is ignored."""
        return str(path).startswith(self._root) and self._ignores(str(path)[len(self._root) :], "/")

    def _ignores(self, name: str, end: str) -> bool:
        """Decide by the folder of a name, or else by the nearest `.gitignore` with a rule for the name."""
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = self._ignores(folder, "/")
        if self._folders[folder]:
            return True
        while True:
            if folder not in self._specs:
                self._specs[folder] = self._read(f"{folder}/", ())
            spec = self._specs[folder]
            decision = spec and spec.check_file(name[len(folder) :].removeprefix("/") + end).include
            if decision is not None or not folder:
                return bool(decision)
            folder = folder.rpartition("/")[0]

    def _read(self, folder: str, rules: tuple[str, ...]) -> GitIgnoreSpec | None:
        with suppress(OSError):
            rules += tuple(
                Path(f"{self._root}{folder}.gitignore").read_text("utf-8-sig", "replace").splitlines()
            )
        return GitIgnoreSpec.from_lines(rules) if rules else None
