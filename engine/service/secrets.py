"""Secrets of projects: names are visible in the project, values only to its guests.

The bucket has values that are sealed with a key (AES-256-GCM). The key is a file beside it, which copies of
the bucket do not contain.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from engine.bucket.protocols import KeyValue, StaleRevision, VersionedValue, disk_error
from engine.errors import SvcError
from engine.files.atomic import write_atomic
from engine.manifest.validate import RESERVED

KEY_FILE = "secrets.key"
KEY_BYTES, NONCE_BYTES = 32, 12
_HINT = "Copy {} from the machine that stored them, or set each secret again with `svc secret set`."


class SecretsKeyError(SvcError):
    """A secret is sealed with a key that this machine lacks, or the key file is unusable."""

    code = "secrets-key"


class SecretsKey:
    """The keys of a service. The first one seals; the others unseal older values."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._raw = {hashlib.sha256(key).hexdigest()[:8]: key for key in keys}
        self._keys = {name: AESGCM(key) for name, key in self._raw.items()}
        self._current = next(iter(self._keys))
        self.text = "".join(base64.urlsafe_b64encode(key).decode() + "\n" for key in keys)
        """The content of the key file."""

    @classmethod
    def create(cls) -> "SecretsKey":
        return cls([os.urandom(KEY_BYTES)])

    @classmethod
    def parse(cls, text: str) -> "SecretsKey":
        """Return the keys of a key file's content. Raises `ValueError`."""
        keys = [base64.b64decode(line, altchars=b"-_", validate=True) for line in text.split()]
        if not keys or {len(key) for key in keys} != {KEY_BYTES}:
            raise ValueError("not a key")
        return cls(keys)

    @classmethod
    def open(cls, folder: Path) -> "SecretsKey":
        """Read the key file of a data directory, or create it. Blocks. Raises `SvcError`."""
        path = folder / KEY_FILE
        try:
            try:
                return cls.parse(path.read_text("ascii"))
            except FileNotFoundError:
                key = cls.create()
                write_atomic(path, key.text.encode(), sync=True)
                return key
        except OSError as error:
            raise disk_error(path, error) from error
        except ValueError as error:
            raise SecretsKeyError(f"{path} is corrupt", "Restore it from a backup.") from error

    def derive(self, purpose: str) -> dict[str, bytes]:
        """Return a key of 32 bytes for another purpose from each key, by its id; the current one first."""
        return {
            name: HKDF(hashes.SHA256(), KEY_BYTES, None, purpose.encode()).derive(key)
            for name, key in self._raw.items()
        }

    def seal(self, name: str, value: str) -> dict[str, str]:
        """Return a value encrypted for one name, as JSON members."""
        nonce = os.urandom(NONCE_BYTES)
        content = value.encode("utf-8", "surrogatepass")
        sealed = nonce + self._keys[self._current].encrypt(nonce, content, name.encode())
        return {"key": self._current, "sealed": base64.b64encode(sealed).decode()}

    def unseal(self, name: str, members: Mapping[str, str]) -> str:
        """Return the value that `seal` encrypted for this name. Raises `SecretsKeyError`."""
        key = self._keys.get(members["key"])
        if key is None:
            raise SecretsKeyError(
                f"the secret {name} is sealed with the key {members['key']}, which this service lacks",
                _HINT.format(KEY_FILE),
            )
        sealed = base64.b64decode(members["sealed"])
        try:
            content = key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())
        except InvalidTag as error:
            hint = "Set it again with `svc secret set`."
            raise SecretsKeyError(f"the secret {name} is corrupt", hint) from error
        return content.decode("utf-8", "surrogatepass")


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
        return {
            name: value if isinstance(value, str) else self._key.unseal(_context(project, name), value)
            for name, value in stored.items()
            if name in names
        }

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
            hint = "Use letters, digits and _; names cannot start with a digit or SVC_."
            raise SecretError(f'invalid secret name "{name}"', hint)
        if len(value.encode("utf-8", "surrogateescape")) > MAX_VALUE_BYTES or "\0" in value:
            message = f"the value of {name} contains a NUL byte or exceeds {MAX_VALUE_BYTES >> 10} KiB"
            raise SecretError(message, "Store large values in a table and only a key here.")
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


def _context(project: str, name: str) -> str:
    """Return what a sealed value is bound to. Names have no slash."""
    return f"{project}/{name}"


def _stored(cell: VersionedValue | None) -> _Stored:
    return dict(json.loads(cell.value)) if cell is not None else {}
