"""The git commit of a project's files."""

import subprocess
from pathlib import Path

GIT_TIMEOUT_SECONDS = 10


def commit_of(root: Path) -> str:
    """Return the short commit hash, with a `+` if files are modified; empty outside of a repository."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return f"{head}+" if _git(root, "status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT_SECONDS)
    return result.stdout.strip()
