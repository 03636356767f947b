"""The files of the repository."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*suffixes: str) -> list[Path]:
    """Return every file under version control, or only those with one of the suffixes."""
    command = ["git", "ls-files", "-z"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in filter(None, process.stdout.split("\0"))]
    return [path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes)]
