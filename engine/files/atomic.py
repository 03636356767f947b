"""Small files that others read at any time: they find what was there before, or all of the new.

Owns that one way to write. What must outlive a power cut is written by `engine/bucket/durable.py`.
"""

import os
import tempfile
from pathlib import Path


def write_atomic(target: Path, content: bytes) -> None:
    """Replace a file whole; only the user may read it. Raises OSError, and leaves nothing beside it then."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
