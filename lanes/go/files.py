"""Atomic writes of files for Go. Equal files stay untouched, so that Go's cache recognizes them."""

import os
from pathlib import Path


def write(file: Path, text: str) -> None:
    """Write a file if it differs, and create its folder if needed. Raises `OSError`."""
    if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    arriving.write_text(text, encoding="utf-8")
    arriving.replace(file)
