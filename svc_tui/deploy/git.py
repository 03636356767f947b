"""Which commit the sources of a Project are of. Owns that git is asked, and that it may be missing."""

import subprocess
from pathlib import Path

GIT_SECONDS = 10


def commit_of(root: Path) -> str:
    """Return the commit that the sources are of, with a `+` when files differ; empty where there is none."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        return f"{head}+" if _git(root, "status", "--porcelain", "--", ".") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_SECONDS)
    return done.stdout.strip()
