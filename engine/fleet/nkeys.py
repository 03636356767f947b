"""Authentication of NATS clients: Ed25519 key pairs in the text form of nkeys."""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engine.fleet.errors import ClusterRefused

_SEED, _USER = 18 << 3, 20 << 3
"""Prefix bytes of nkeys."""
_SEED_TEXT = re.compile(r"\bSU[A-Z2-7]{56}\b")


@dataclass(frozen=True, slots=True)
class Nkey:
    """A key pair of a NATS user: the secret `seed` (SU…) and the `public` key (U…)."""

    seed: str
    public: str

    @classmethod
    def create(cls) -> "Nkey":
        """Return a new key pair."""
        # A seed begins with two prefixes: 5 bits of "seed", then 8 bits of the kind of key.
        prefix = bytes((_SEED | _USER >> 5, (_USER & 31) << 3))
        return cls.from_seed(_text(prefix + Ed25519PrivateKey.generate().private_bytes_raw()))

    @classmethod
    def from_seed(cls, seed: str) -> "Nkey":
        """Return the key pair of a seed."""
        public = _private_key(seed).public_key().public_bytes_raw()
        return cls(seed, _text(bytes([_USER]) + public))

    @classmethod
    def read(cls, path: Path) -> "Nkey":
        """Read the seed in a file. Raises `ClusterRefused`."""
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ClusterRefused(
                f"cannot read {path}: {error.strerror}", "Check the path and its permissions."
            ) from error
        seed = _SEED_TEXT.search(text)
        if seed is None:
            raise ClusterRefused(f"{path} has no user seed (SU…)", "Restore the folder of the node.")
        return cls.from_seed(seed[0])

    def sign(self, nonce: str) -> bytes:
        """Return the signature of a server's nonce, as base64."""
        return base64.b64encode(_private_key(self.seed).sign(nonce.encode()))


def _private_key(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b32decode(seed + "=" * (-len(seed) % 8))[2:-2])


def _text(content: bytes) -> str:
    crc = binascii.crc_hqx(content, 0)
    return base64.b32encode(content + crc.to_bytes(2, "little")).decode().rstrip("=")
