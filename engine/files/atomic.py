"""Atomic writes of small files: readers see the old or the new content.

They do not survive a power cut; `engine/bucket/durable.py` does that.
"""

import os
import tempfile
from pathlib import Path


def write_atomic(target: Path, content: bytes) -> None:
    """Replace a file atomically; only the user may read it. Raises OSError and leaves no partial file."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
