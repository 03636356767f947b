"""Certificates with their keys, apart from the authority, whose imports take a tenth of a service's start."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes

    @classmethod
    def read(cls, certificate: Path, key: Path) -> "KeyPair":
        """Return the pair in two files. Raises OSError."""
        return cls(certificate.read_bytes(), key.read_bytes())
