"""Secrets of projects: names are visible in the project, values only to its guests."""

import json
import re
from collections.abc import Callable

from engine.bucket.protocols import KeyValue, StaleRevision, VersionedValue
from engine.errors import SvcError
from engine.manifest.validate import RESERVED

KEY_PREFIX = "secrets/"
MAX_VALUE_BYTES = 64 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SecretError(SvcError):
    """The name or value of a secret is invalid."""

    code = "invalid"


class SecretStore:
    """Stores secrets unencrypted in the bucket's control database."""

    def __init__(self, cells: KeyValue) -> None:
        self._cells = cells

    async def values(self, project: str) -> dict[str, str]:
        """Return the values by name."""
        return _values(await self._cells.get(KEY_PREFIX + project))

    async def names(self, project: str) -> list[str]:
        """Return the names in alphabetical order."""
        return sorted(await self.values(project))

    async def set(self, project: str, name: str, value: str) -> None:
        """Set a secret. Raises `SecretError`."""
        if not _NAME.fullmatch(name) or RESERVED.fullmatch(name):
            raise SecretError(
                f'invalid secret name "{name}"',
                "Use letters, digits and _; names cannot start with a digit or SVC_.",
            )
        if len(value.encode("utf-8", "surrogateescape")) > MAX_VALUE_BYTES or "\0" in value:
            raise SecretError(
                f"the value of {name} contains a NUL byte or exceeds {MAX_VALUE_BYTES >> 10} KiB",
                "Store large values in a table and only a key here.",
            )
        await self._change(project, lambda values: {**values, name: value})

    async def remove(self, project: str, name: str) -> bool:
        """Remove a secret; return whether it existed."""
        if name not in await self.values(project):
            return False
        await self._change(project, lambda values: {key: v for key, v in values.items() if key != name})
        return True

    async def _change(self, project: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        while True:
            cell = await self._cells.get(KEY_PREFIX + project)
            new = json.dumps(change(_values(cell)), ensure_ascii=False).encode("utf-8", "surrogatepass")
            if not isinstance(
                await self._cells.cas(KEY_PREFIX + project, new, cell.revision if cell else None),
                StaleRevision,
            ):
                return


def _values(cell: VersionedValue | None) -> dict[str, str]:
    return dict(json.loads(cell.value)) if cell is not None else {}
