"""Digests of files."""

from hashlib import file_digest
from pathlib import Path


def content_digest(path: Path) -> str:
    """Return the sha256 (hex) of a file. Raises OSError."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
