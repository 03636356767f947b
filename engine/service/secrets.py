"""Secrets of projects: names are visible in the project, values only to its guests."""

import json
import re
from collections.abc import Callable, Mapping, Set

from engine.bucket.protocols import KeyValue, StaleRevision, VersionedValue
from engine.errors import SvcError
from engine.manifest.validate import RESERVED
from engine.service.secrets_key import SecretsKey

KEY_PREFIX = "secrets/"
MAX_VALUE_BYTES = 64 << 10
_Value = str | Mapping[str, str]
"""A value in clear, as an older svc stored it, or the members of a sealed one."""
_Stored = dict[str, _Value]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class SecretError(SvcError):
    """The name or value of a secret is invalid."""

    code = "invalid"


class SecretStore:
    """Stores the secrets of each project under one key; their values are sealed."""

    def __init__(self, cells: KeyValue, key: SecretsKey) -> None:
        self._cells, self._key = cells, key

    async def values(self, project: str, names: Set[str]) -> dict[str, str]:
        """Return the values of secrets by name, without those that are not set. Raises `SecretsKeyError`."""
        stored = _stored(await self._cells.get(KEY_PREFIX + project)) if names else {}
        return {name: self._unsealed(project, name, stored[name]) for name in names & stored.keys()}

    async def names(self, project: str) -> list[str]:
        return sorted(_stored(await self._cells.get(KEY_PREFIX + project)))

    async def seal_all(self) -> None:
        """Seal values that an older svc stored in clear."""
        for cell in await self._cells.list(KEY_PREFIX):
            if any(isinstance(value, str) for value in _stored(cell).values()):
                await self._change(cell.key.removeprefix(KEY_PREFIX), lambda values: values)

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
        if name not in await self.names(project):
            return False
        await self._change(project, lambda values: {key: v for key, v in values.items() if key != name})
        return True

    async def _change(self, project: str, change: Callable[[_Stored], _Stored]) -> None:
        while True:
            cell = await self._cells.get(KEY_PREFIX + project)
            values = {
                name: self._key.seal(_context(project, name), value) if isinstance(value, str) else value
                for name, value in change(_stored(cell)).items()
            }
            answer = await self._cells.cas(
                KEY_PREFIX + project, json.dumps(values).encode(), cell.revision if cell else None
            )
            if not isinstance(answer, StaleRevision):
                return

    def _unsealed(self, project: str, name: str, value: _Value) -> str:
        return value if isinstance(value, str) else self._key.unseal(_context(project, name), value)


def _context(project: str, name: str) -> str:
    """Return what a sealed value is bound to. Names have no slash."""
    return f"{project}/{name}"


def _stored(cell: VersionedValue | None) -> _Stored:
    return dict(json.loads(cell.value)) if cell is not None else {}
