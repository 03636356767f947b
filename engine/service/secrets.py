"""The secrets of Projects: names that anybody of a Project may see, values that only its guests get."""

import json
import re
from collections.abc import Callable

from engine.bucket.protocols import Conflict, KeyValue, VersionedValue
from engine.errors import SvcError
from engine.manifest.validate import RESERVED

KEY_PREFIX = "secrets/"
MAX_VALUE_BYTES = 64 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SecretError(SvcError):
    """A secret can not have this name or this value."""

    code = "invalid"


class SecretStore:
    """The values lie in the bucket's control database as they are: who may read that file may read them."""

    def __init__(self, cells: KeyValue) -> None:
        self._cells = cells

    async def values(self, project: str) -> dict[str, str]:
        """Return the values by name."""
        return _values(await self._cells.get(KEY_PREFIX + project))

    async def names(self, project: str) -> list[str]:
        """Return the names."""
        return sorted(await self.values(project))

    async def set(self, project: str, name: str, value: str) -> None:
        """Give a secret a value. Raises `SecretError`."""
        if not _NAME.fullmatch(name) or RESERVED.fullmatch(name):
            raise SecretError(
                f'"{name}" can not be the name of a secret',
                "It is a variable's name: letters, digits and _, not beginning with SVC_.",
            )
        if len(value.encode("utf-8", "surrogateescape")) > MAX_VALUE_BYTES or "\0" in value:
            raise SecretError(
                f"the value of {name} has a NUL or more than {MAX_VALUE_BYTES >> 10} KiB",
                "Guests get it as a variable.",
            )
        await self._change(project, lambda values: {**values, name: value})

    async def remove(self, project: str, name: str) -> bool:
        """Remove a secret; whether it was there."""
        if name not in await self.values(project):
            return False
        await self._change(project, lambda values: {key: v for key, v in values.items() if key != name})
        return True

    async def _change(self, project: str, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        while True:
            cell = await self._cells.get(KEY_PREFIX + project)
            new = json.dumps(change(_values(cell)), ensure_ascii=False).encode("utf-8", "surrogatepass")
            if not isinstance(
                await self._cells.cas(KEY_PREFIX + project, new, cell.revision if cell else None), Conflict
            ):
                return


def _values(cell: VersionedValue | None) -> dict[str, str]:
    return dict(json.loads(cell.value)) if cell is not None and cell.value is not None else {}
