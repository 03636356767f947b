"""Atomic writes of small files: readers see the old or the new content.

Without `sync` they do not survive a power cut; `engine/bucket/durable.py` also flushes the name.
"""

import os
import tempfile
from pathlib import Path


def write_atomic(target: Path, *content: bytes | memoryview, sync: bool = False) -> None:
    """Replace a file atomically; only the user may read it. Raises OSError and leaves no partial file.

    `content` is in parts. With `sync`, the content is on disk before the file has its name.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
