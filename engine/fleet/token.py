"""Tokens that let a machine join a fleet.

A token names addresses of nodes, pins their certificate authority by its SHA-256, and has a random secret.
"""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass

from engine.fleet.errors import FleetError
from engine.fleet.node import NodeAddress

PREFIX = "svcj1."
MAX_ADDRESSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """`addresses` are those of nodes that accept it, `authority` the fingerprint of their authority."""

    addresses: tuple[NodeAddress, ...]
    authority: str
    secret: str

    @classmethod
    def create(cls, addresses: tuple[NodeAddress, ...], authority: str) -> "JoinToken":
        """Return a token with a new secret of 256 bits."""
        return cls(addresses=addresses[:MAX_ADDRESSES], authority=authority, secret=secrets.token_urlsafe(32))

    @classmethod
    def parse(cls, text: str) -> "JoinToken":
        """Return the token of its text form. Raises `FleetError`."""
        try:
            content = text.strip().removeprefix(PREFIX)
            document = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
            addresses = tuple(NodeAddress(str(host), int(port)) for host, port in document["at"])
            token = cls(addresses=addresses, authority=str(document["ca"]), secret=str(document["secret"]))
            if not addresses or not text.strip().startswith(PREFIX):
                raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise FleetError(
                "the token is not valid", "Copy the whole token that `svc fleet token` printed."
            ) from error
        return token

    @property
    def text(self) -> str:
        """The text form."""
        document = {
            "at": [[address.host, address.port] for address in self.addresses],
            "ca": self.authority,
            "secret": self.secret,
        }
        content = json.dumps(document, separators=(",", ":")).encode()
        return PREFIX + base64.urlsafe_b64encode(content).decode().rstrip("=")

    @property
    def digest(self) -> str:
        """SHA-256 of the secret: what the fleet stores."""
        return hashlib.sha256(self.secret.encode()).hexdigest()
