"""Key that seals the values of secrets (AES-256-GCM).

The bucket has sealed values only. The key is a file beside it, which copies of the bucket do not contain.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from engine.bucket.protocols import disk_error
from engine.errors import SvcError
from engine.files.atomic import write_atomic

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
            raise SecretsKeyError(
                f"the secret {name} is corrupt", "Set it again with `svc secret set`."
            ) from error
        return content.decode("utf-8", "surrogatepass")
