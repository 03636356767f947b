"""Certificates, orders and challenges as values of the bucket. Private keys are sealed."""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from engine.bucket.protocols import KeyValue, StaleRevision, VersionedValue
from engine.service.secrets import SecretsKey, SecretsKeyError

_log = logging.getLogger("svc.server")

SERVICE = "service"
"""Owner of the certificate of the service's own name. That of a project is `projects/<project>`."""
PREFIX = "certificates/"
ACCOUNT = "acme/account"
CHALLENGES = "acme/challenges/"


def owner_of(project: str) -> str:
    return f"projects/{project}"


def new_key() -> str:
    """Return a new private key (P-256), as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@dataclass(slots=True, kw_only=True)
class Order:
    """An order that has begun, with the sealed key of its certificate and its challenges.

    `tokens` are those of HTTP-01, `records` the names and texts of DNS-01.
    """

    url: str
    names: list[str]
    request: str
    key: Mapping[str, str]
    tokens: list[str] = field(default_factory=list)
    records: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Entry:
    """The certificate of an owner, and the attempts to obtain one. All times are Unix times.

    While `holder`, a node, attempts to renew it, no other node does so until `until`.
    """

    names: list[str] = field(default_factory=list)
    chain: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    renew_at: float = 0
    check_at: float = 0
    """When to ask the authority for the time of renewal."""
    order: Order | None = None
    ordered: list[float] = field(default_factory=list)
    """Orders of the last day."""
    tried: float = 0
    failures: int = 0
    retry_at: float = 0
    error: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names that the certificate should have and the authority refused, with its reasons."""
    left_out_failures: int = 0
    left_out_until: float = 0
    """When the names that are left out are tried again."""
    holder: str = ""
    until: float = 0
    revision: int | None = None
    """Revision in the bucket, `None` before it is stored."""


class ClaimLost(Exception):
    """Another node attempts to renew the certificate."""


class CertificateStore:
    """Reads and writes the values. Use on one event loop."""

    def __init__(self, cells: KeyValue, key: SecretsKey) -> None:
        self._cells, self._key = cells, key

    async def all(self) -> dict[str, Entry]:
        return {cell.key.removeprefix(PREFIX): _entry(cell) for cell in await self._cells.list(PREFIX)}

    async def save(self, owner: str, entry: Entry) -> None:
        """Store an entry. Raises `ClaimLost` if it was changed meanwhile."""
        value = json.dumps(asdict(entry)).encode()
        answer = await self._cells.cas(PREFIX + owner, value, entry.revision)
        if isinstance(answer, StaleRevision):
            raise ClaimLost
        entry.revision = answer

    def seal(self, owner: str, key: str) -> dict[str, str]:
        """Return a private key (PEM), sealed for an owner."""
        return self._key.seal(PREFIX + owner, key)

    def unseal(self, owner: str, sealed: Mapping[str, str]) -> str:
        """Return a private key (PEM). Raises `SecretsKeyError`."""
        return self._key.unseal(PREFIX + owner, sealed)

    async def account_key(self) -> str:
        """Return the key of the account (PEM), which is created if it cannot be unsealed.

        Raises `ClaimLost` if another node creates it now.
        """
        cell = await self._cells.get(ACCOUNT)
        if cell is not None:
            try:
                return self._key.unseal(ACCOUNT, json.loads(cell.value))
            except SecretsKeyError as error:
                _log.warning("%s; svc uses a new account at the certificate authority", error.message)
        key = new_key()
        sealed = json.dumps(self._key.seal(ACCOUNT, key)).encode()
        revision = cell.revision if cell is not None else None
        if isinstance(await self._cells.cas(ACCOUNT, sealed, revision), StaleRevision):
            raise ClaimLost
        return key

    async def forget_account(self) -> None:
        """Remove the key of the account, so that there will be another account."""
        await self._set(ACCOUNT, None)

    async def set_challenge(self, token: str, name: str, text: str) -> None:
        """Store the text that the authority expects for a token at the host `name`."""
        await self._set(CHALLENGES + token, json.dumps([name, text]).encode())

    async def challenge(self, token: str, name: str) -> str | None:
        """Return the text for a token at the host `name`."""
        cell = await self._cells.get(CHALLENGES + token)
        expected, text = json.loads(cell.value) if cell is not None else ("", "")
        return str(text) if expected == name else None

    async def remove_challenges(self, tokens: list[str]) -> None:
        for token in tokens:
            await self._set(CHALLENGES + token, None)

    async def _set(self, key: str, value: bytes | None) -> None:
        cell = await self._cells.get(key)
        if cell is not None or value is not None:
            await self._cells.cas(key, value, cell.revision if cell is not None else None)


def _entry(cell: VersionedValue) -> Entry:
    document = json.loads(cell.value)
    order = Order(**document["order"]) if document["order"] is not None else None
    if order is not None:
        order.records = [(name, text) for name, text in order.records]
    return Entry(**document | {"order": order, "revision": cell.revision})
