"""Writes files that Go reads: whole, and only when they differ, so that Go sees what has not changed."""

import os
from pathlib import Path


def write(file: Path, text: str) -> None:
    """Write a file, in a folder that is made when it is not there. Raises `OSError`."""
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    arriving.write_text(text, encoding="utf-8")
    arriving.replace(file)
