"""Atomic writes of small files, where readers see the old or the new content, and links of whole ones.

Without `sync` they do not survive a power cut; `engine/bucket/durable.py` also flushes the name.
"""

import os
import shutil
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


def link_or_copy(path: Path, target: Path) -> None:
    """Create a hard link of a file if the file system allows it, else a copy. Raises OSError."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        with path.open("rb") as content, target.open("xb") as copy:
            shutil.copyfileobj(content, copy)
