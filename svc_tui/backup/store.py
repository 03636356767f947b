"""The objects of a backup in a store of S3, Google Cloud, Azure or a folder. Their content is encrypted.

An object is a head and pieces: the id of a key, a nonce, and up to 1 MiB of compressed content each. A piece
is sealed for its object, its place and whether it is the last one, so that none can be cut off or exchanged.

Names have what a restore chooses by: sequences and times. `values/<time>`: accounts, secrets and deployments.
`blobs/<sha256>-<bytes>`: artifacts. Of the tables of a project:
`tables/<project>/<journal>/snapshot/<sequence>-<time>-<schema>` and
`tables/<project>/<journal>/entries/<first>-<last>-<time>-<gaps>`. `verified/<project>/<time>`: when a restore
of its tables was last found equal to them. `confirmed/<key>/<time>`: when a copy of the key with this id was
last proved to open the backup. Times are those of Unix in ns.
"""

import asyncio
import json
import os
import re
import time
import zlib
from base64 import b64decode
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from engine.bucket.protocols import BlobCorrupt, BlobInfo, BlobMissing, Digest, VersionedValue
from engine.errors import SvcError
from engine.files.atomic import link_or_copy
from engine.service.secrets import SecretsKey

SERVICE = "service"
"""Object with the id of the service that writes here."""
ID_FILE = "backup.json"
"""File of a data directory with the id of its service."""
VALUES, BLOBS, TABLES, VERIFIED, CONFIRMED = "values", "blobs", "tables", "verified", "confirmed"
_VALUES = re.compile(rf"{VALUES}/([0-9]{{20}})")
_BLOB = re.compile(rf"{BLOBS}/([0-9a-f]{{64}})-([0-9]+)")
_MARK = re.compile(r"([a-z]+)/([^/]+)/([0-9]{20})")
_JOURNAL = rf"{TABLES}/([^/]+)/([^/]+)"
_SNAPSHOT = re.compile(rf"{_JOURNAL}/snapshot/([0-9]+)-([0-9]+)-([0-9]+)")
_ENTRIES = re.compile(rf"{_JOURNAL}/entries/([0-9]+)-([0-9]+)-([0-9]+)-([0-9]+)")


class Snapshot(NamedTuple):
    """A database of a project, whose last transaction is `sequence` of its journal."""

    project: str
    journal: str
    sequence: int
    time_ns: int
    schema: int

    @property
    def name(self) -> str:
        """The name of the object."""
        head = f"{TABLES}/{self.project}/{self.journal}/snapshot"
        return f"{head}/{self.sequence:016}-{self.time_ns:020}-{self.schema}"


class Entries(NamedTuple):
    """Transactions of a journal: `time_ns` is that of the first one, `gaps` counts those without content."""

    project: str
    journal: str
    first: int
    last: int
    time_ns: int
    gaps: int

    @property
    def name(self) -> str:
        """The name of the object."""
        head = f"{TABLES}/{self.project}/{self.journal}/entries"
        return f"{head}/{self.first:016}-{self.last:016}-{self.time_ns:020}-{self.gaps}"


def values_times(names: Iterable[str]) -> list[int]:
    """Return the times of objects with values, in order. Other names are ignored."""
    return sorted(int(found[1]) for name in names if (found := _VALUES.fullmatch(name)))


def parse_blobs(names: Iterable[str]) -> dict[str, int]:
    """Return the digests and sizes of blobs. Other names are ignored."""
    return {found[1]: int(found[2]) for name in names if (found := _BLOB.fullmatch(name))}


def blob_name(digest: str, size: int) -> str:
    return f"{BLOBS}/{digest}-{size}"


def values_name(time_ns: int) -> str:
    return f"{VALUES}/{time_ns:020}"


def parse_marks(kind: str, names: Iterable[str]) -> dict[str, int]:
    """Return when projects were last `VERIFIED`, or keys `CONFIRMED`. Other names are ignored."""
    found = (_MARK.fullmatch(name) for name in sorted(names))
    return {each[2]: int(each[3]) for each in found if each is not None and each[1] == kind}


def mark_name(kind: str, subject: str, time_ns: int) -> str:
    """Return the name of the object that says when a project was `VERIFIED`, or a key `CONFIRMED`."""
    return f"{kind}/{subject}/{time_ns:020}"


def parse_tables(names: Iterable[str]) -> tuple[list[Snapshot], list[Entries]]:
    """Return what the names below `tables` stand for, each in the order of names. Others are ignored."""
    snapshots, entries = [], []
    for name in names:
        if found := _SNAPSHOT.fullmatch(name):
            project, journal, *numbers = found.groups()
            snapshots.append(Snapshot(project, journal, *map(int, numbers)))
        elif found := _ENTRIES.fullmatch(name):
            project, journal, *numbers = found.groups()
            entries.append(Entries(project, journal, *map(int, numbers)))
    return snapshots, entries


PIECE_BYTES = 1 << 20
PART_BYTES, PARALLEL_PARTS = 8 << 20, 3
"""Size of the parts of an upload, and how many are sent at a time."""
_REMOTE = {
    "retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=30)},
    "client_options": {"connect_timeout": "5s", "timeout": "600s", "allow_http": True},
}
"""The backup itself repeats what fails. An upload has ten minutes."""
_PURPOSE = "svc backup"
_MAGIC = b"svcb1"
_ID_BYTES, _NONCE_BYTES, _SIZE_BYTES = 8, 8, 4


class BackupError(SvcError):
    """A backup cannot be read or written."""

    code = "backup"


class BackupDamaged(BackupError):
    """An object is missing, damaged, or sealed with another key."""


class OtherKey(BackupDamaged):
    """An object is sealed with another key."""


class BackupTaken(BackupError):
    """The store has the backup of another service."""


class StoredObject(NamedTuple):
    """A listed object, and when it was stored."""

    name: str
    size: int
    stored: datetime


def folder_of(url: str) -> Path | None:
    """Return the folder of a `file` URL, None for other stores."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None


class BackupStore:
    """The objects below a URL. Methods block; use them on threads. They raise `BackupError`."""

    def __init__(self, url: str, key: SecretsKey, *, create: bool = False) -> None:
        """Open the store, whose credentials are those of the environment; `create` a missing folder."""
        try:
            import obstore.exceptions
            import obstore.store
        except ModuleNotFoundError as error:
            raise BackupError(
                "backups need the package obstore", "Install svc with it: pip install 'svc-tui[backup]'."
            ) from error
        self.url = url
        self._keys = {name: AESGCM(derived) for name, derived in key.derive(_PURPOSE).items()}
        self.key_id = next(iter(self._keys))
        self.ended = ""
        """Set to a reason to give up what is stored, read and restored in pieces on other threads."""
        self._obstore: Any = obstore
        self._errors: Any = obstore.exceptions
        if not url.startswith(("s3://", "gs://", "az://", "file:///")):
            hint = "Use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER."
            raise BackupError(f"{url or 'an empty text'} is not the URL of a store", hint)
        self.folder = folder_of(url)
        self.answered = time.monotonic()
        """When the store last answered without an error (monotonic)."""
        with self._translated("be opened"):
            options: dict[str, Any] = {"mkdir": create} if self.folder else _REMOTE
            self._store = obstore.store.from_url(url, **options)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
            self.answered = time.monotonic()
        except (self._errors.BaseError, OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and what == "be read":
                raise BackupDamaged(f"the backup at {self.url} lacks an object: {_reason(error)}") from error
            raise BackupError(
                f"the backup at {self.url} cannot {what}: {_reason(error)}",
                "Check the URL, the credentials in the environment, and the network.",
            ) from error

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Return the objects in a folder, sorted by name."""
        with self._translated("be listed"):
            found = self._obstore.list(self._store, prefix=prefix or None)
            return sorted(
                StoredObject(each["path"], each["size"], each["last_modified"]) for of in found for each in of
            )

    def put(self, name: str, content: bytes, mode: str = "overwrite") -> bool:
        """Store an object; return whether it was stored: `create` leaves one of that name."""
        with self._translated("be written"), suppress(self._errors.AlreadyExistsError):
            self._obstore.put(self._store, name, b"".join(self.sealed(name, [content])), mode=mode)
            return True
        return False

    def mark(self, kind: str, subject: str, time_ns: int) -> None:
        """Store the time of an event in the name of an object, instead of an earlier one."""
        name = mark_name(kind, subject, time_ns)
        self.put(name, b"")
        self.delete({each.name for each in self.list(f"{kind}/{subject}")} - {name})

    def put_file(self, name: str, file: Path, *, is_sealed: bool = False) -> None:
        """Store the content of a file, a few parts at a time; a folder gets a link if it is sealed.

        Writes to tables wait for what else their disk has to write.
        """
        with file.open("rb") as source, self._translated("be written"):
            if is_sealed and self.folder is not None:
                target = self.folder / name
                partial = target.with_name(f"{target.name}#1")
                partial.parent.mkdir(parents=True, exist_ok=True)
                try:
                    link_or_copy(file, partial)
                    partial.replace(target)
                finally:
                    partial.unlink(missing_ok=True)
                return
            pieces = iter(lambda: source.read(PIECE_BYTES), b"")
            content = pieces if is_sealed else self.sealed(name, pieces)
            self._obstore.put(
                self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARALLEL_PARTS
            )

    def remove_partial(self) -> None:
        """Remove what killed uploads left in a folder, while none is under way. Raises OSError."""
        for path in self.folder.rglob("*#[0-9]*") if self.folder is not None else ():
            if path.is_file():
                path.unlink()

    def delete(self, names: Collection[str]) -> None:
        """Remove objects, unless others have removed them."""
        with self._translated("be written"):
            try:
                self._obstore.delete(self._store, [*names])
            except FileNotFoundError:
                for name in names:
                    with suppress(FileNotFoundError):
                        self._obstore.delete(self._store, name)

    def values(self, name: str) -> dict[str, bytes]:
        """Return the values of an object. Raises `BackupDamaged`."""
        return {key: b64decode(value) for key, value in json.loads(self.get(name)).items()}

    def blobs(self) -> dict[str, int]:
        return parse_blobs(each.name for each in self.list(BLOBS))

    def get(self, name: str) -> bytes:
        """Return the content of an object. Raises `BackupDamaged`."""
        return b"".join(self.read(name))

    def read(self, name: str) -> Iterator[bytes]:
        """Yield the content of an object in pieces. Raises `BackupDamaged`."""
        buffer = bytearray()
        with self._translated("be read"):
            stream = iter(self._obstore.get(self._store, name).stream(min_chunk_size=PIECE_BYTES))

        def take(size: int) -> bytes:
            """Return the next bytes. Raises `BackupDamaged` if there are fewer."""
            while len(buffer) < size:
                self.check_ended()
                with self._translated("be read"):
                    chunk = next(stream, None)
                if chunk is None:
                    raise self._damaged(name)
                buffer.extend(bytes(chunk))
            taken = bytes(buffer[:size])
            del buffer[:size]
            return taken

        magic, key, nonce = take(len(_MAGIC)), take(_ID_BYTES), take(_NONCE_BYTES)
        if magic[:-1] == _MAGIC[:-1] and magic > _MAGIC:
            raise BackupDamaged(f"{name} of the backup at {self.url} has a newer format", "Update svc.")
        if magic != _MAGIC:
            raise self._damaged(name)
        cipher = self._keys.get(key.decode(errors="replace"))
        if cipher is None:
            raise OtherKey(
                f"{name} of the backup at {self.url} is sealed with another key",
                "Pass the secrets.key of the service that was backed up: --key FILE.",
            )
        place, last = 0, False
        while not last:
            size = int.from_bytes(take(_SIZE_BYTES), "big")
            last, size = bool(size >> 31), size & ~(1 << 31)
            try:
                piece = cipher.decrypt(
                    nonce + place.to_bytes(4, "big"), take(size), _bound(name, place, last)
                )
                yield zlib.decompress(piece)
            except (InvalidTag, zlib.error) as error:
                raise self._damaged(name) from error
            place += 1
        if buffer:
            raise self._damaged(name)

    def sealed(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the stored form of an object. Raises `BackupError` at the end of the service."""
        cipher, nonce = self._keys[self.key_id], os.urandom(_NONCE_BYTES)
        yield _MAGIC + self.key_id.encode() + nonce
        rest = iter(pieces)
        piece: bytes | None = next(rest, b"")
        place = 0
        while piece is not None:
            self.check_ended()
            following = next(rest, None)
            last = following is None
            bound = _bound(name, place, last)
            sealed = cipher.encrypt(nonce + place.to_bytes(4, "big"), zlib.compress(piece, 1), bound)
            yield (len(sealed) | last << 31).to_bytes(_SIZE_BYTES, "big") + sealed
            piece, place = following, place + 1

    def check_ended(self) -> None:
        if self.ended:
            raise BackupError(self.ended)

    def give_up(self) -> None:
        self.ended = "canceled"

    def _damaged(self, name: str) -> BackupDamaged:
        return BackupDamaged(
            f"{name} of the backup at {self.url} is damaged",
            "Restore it from a copy of the store, or restore an earlier moment: --at TIME",
        )


def _bound(name: str, place: int, last: bool) -> bytes:
    return f"{name}\0{place}\0{int(last)}".encode()


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0]


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Values of a backup."""

    values: Mapping[str, bytes]

    async def get(self, key: str) -> VersionedValue | None:
        return VersionedValue(key, self.values[key], 1) if key in self.values else None

    async def list(self, prefix: str) -> list[VersionedValue]:
        return [
            VersionedValue(*each, 1) for each in sorted(self.values.items()) if each[0].startswith(prefix)
        ]


class StoredBlobs:
    """The blobs of a backup, with their sizes. Those that were found damaged are no longer listed."""

    def __init__(self, store: BackupStore, sizes: Mapping[str, int]) -> None:
        self._store, self._sizes = store, dict(sizes)

    async def list(self) -> AsyncGenerator[BlobInfo, None]:
        for digest, size in list(self._sizes.items()):
            yield BlobInfo(Digest(digest), size, 0)

    async def read(self, digest: Digest) -> AsyncGenerator[bytes, None]:
        """See `Blobs`. Raises `BlobCorrupt` and `BlobMissing`."""
        if digest not in self._sizes:
            raise BlobMissing(digest)
        pieces = self._store.read(blob_name(digest, self._sizes[digest]))
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece
        except BackupDamaged as error:
            del self._sizes[digest]
            raise BlobCorrupt(digest) from error


class StoredBucket:
    """The bucket in a backup, with the values of one time or of several ones."""

    def __init__(self, store: BackupStore, values: Mapping[str, bytes], blobs: Mapping[str, int]) -> None:
        """`blobs` are digests and sizes."""
        self.kv = StoredValues(values)
        self.blobs = StoredBlobs(store, blobs)
