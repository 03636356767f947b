"""Storage of the projects' quotas in the bucket."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace

from engine.bucket.protocols import KeyValue, StaleRevision, VersionedValue
from engine.errors import SvcError
from engine.quota import Quota

KEY_PREFIX = "quotas/"
_NAMES = frozenset(field.name for field in fields(Quota))


class QuotaStore:
    """The quotas in a bucket, one value for each project."""

    def __init__(self, cells: KeyValue) -> None:
        self._cells = cells

    async def get(self, project: str) -> Quota:
        return _quota(await self._cells.get(KEY_PREFIX + project))

    async def change(self, project: str, limits: Mapping[str, int | None]) -> Quota:
        """Change some limits, `None` to none, and return the quota."""
        while True:
            cell = await self._cells.get(KEY_PREFIX + project)
            quota = replace(_quota(cell), **limits)
            limited = {name: limit for name, limit in asdict(quota).items() if limit is not None}
            value = json.dumps(limited).encode() if limited else None
            if cell is None and value is None:
                return quota
            stored = await self._cells.cas(KEY_PREFIX + project, value, cell.revision if cell else None)
            if not isinstance(stored, StaleRevision):
                return quota


def _quota(cell: VersionedValue | None) -> Quota:
    """Return a stored quota. Limits of a newer svc are ignored. Raises `SvcError` for a corrupt value."""
    if cell is None:
        return Quota()
    try:
        limits = {name: limit for name, limit in json.loads(cell.value).items() if name in _NAMES}
        if all(type(limit) is int and limit > 0 for limit in limits.values()):
            return Quota(**limits)
    except (ValueError, AttributeError, RecursionError):
        pass
    project = cell.key.removeprefix(KEY_PREFIX)
    hint = "Restore control.db from a backup."
    raise SvcError(f"the stored quota of {project} is corrupt", hint, code="record")
