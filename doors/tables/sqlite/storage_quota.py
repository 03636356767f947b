"""Storage quotas of databases: the maximum size of each file, for guests and owners in this process."""

import shutil
from pathlib import Path

_FREE_BYTES = 16 << 20
"""Free space of a disk that is not full: more than a transaction of guests writes at once."""
_limits: dict[Path, int] = {}


def set_storage_quota(path: Path, limit: int | None) -> None:
    """Set the maximum bytes of a database file; `None` removes it. Applies to connections opened later."""
    if limit is None:
        _limits.pop(path.resolve(), None)
    else:
        _limits[path.resolve()] = limit


def storage_quota(path: Path) -> int | None:
    """Return the maximum bytes of a database file, or `None`."""
    return _limits.get(path.resolve()) if _limits else None


def exceeds_quota(path: Path) -> str:
    """Return why a database is full, if that is its quota and not the disk; else an empty string."""
    limit = storage_quota(path)
    try:
        if limit is None or shutil.disk_usage(path.parent).free < _FREE_BYTES:
            return ""
    except OSError:
        return ""
    return f"the tables have reached the project's quota of {limit >> 20} MiB"


QUOTA_HINT = "Delete rows, or ask an owner of the service to run: svc quota set PROJECT --storage MIB"
