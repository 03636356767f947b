"""Entries of the log: their format, and their division into messages.

An entry is a JSON line and a body. The body of `rows` has parts in the order of execution: changesets of
SQLite sessions, and statements that change the schema, as text. Each entry names the hash of the one before.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from doors.tables.replication.errors import CannotApply
from engine.replication import LogMessage

FORMAT = 3
"""Format 1 lacks `origins`. Entries without `undo` have format 2, which an earlier svc reads."""
MESSAGE_BYTES = 1 << 20
SINGLE_BYTES = 32 << 10
"""A larger entry ends with an empty message, so that the last message of a log is always small."""
_COMPRESSED_FROM = 8 << 10
"""Smaller entries stay as they are. Streams and backups compress them together."""
GAP, HEAD_BYTES = b'"kind":"gap"', 32
"""The first bytes of an encoded gap contain this."""
_encode_head = json.JSONEncoder(separators=(",", ":")).encode
_MORE, LAST = b"+", b"."
"""First bytes of the messages of an entry."""
_CHANGES, _STATEMENT = b"C", b"S"
_PLAIN, _ZLIB = b"R", b"Z"

Kind = Literal["rows", "lease", "image", "gap"]
"""`rows`: a transaction. `lease`: only the node with this lease writes after it. `image`: a piece of a
database file, with which a log can begin. `gap`: a transaction whose content a journal lacks."""
Part = bytes | str


class Origin(NamedTuple):
    """The requests of guests that wrote to the tables, or a user (empty for the owner of a folder).

    `by` is `request`, or the user's way: `edit`, `sql`, `schema`, `import`, `migration`, `revert`.
    """

    by: str = ""
    deployment: str = ""
    user: str = ""
    requests: Sequence[str] = ()


UNKNOWN = Origin()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. `schema` is the schema version before it; the replica's must be equal."""

    kind: Kind
    previous: str
    node: str
    schema: int = 0
    parts: Sequence[Part] = ()
    sequences: Mapping[str, int | None] = field(default_factory=dict)
    """Changed rows of `sqlite_sequence`; None: removed."""
    lease: str | None = None
    check: bool = False
    """Whether nodes compare their copies at this entry."""
    complete: bool = True
    """False for all pieces of an image but the last one."""
    origins: Sequence[Origin] = ()
    """That of each part, or one of all; empty in entries of an earlier svc."""
    undo: Sequence[tuple[int, str, bool]] = ()
    """For parts that change tables: statements that undo it, and whether rows are then as they were."""
    lacks: str = ""
    """The changes that a gap lacks, separated by `; `. Those of tables with a primary key may be complete."""

    def encode(self) -> bytes:
        """Return the stored form."""
        head: dict[str, Any] = {"format": FORMAT if self.undo else 2, "kind": self.kind}
        head |= {"previous": self.previous, "node": self.node, "schema": self.schema}
        optional: dict[str, Any] = {"sequences": dict(self.sequences), "lease": self.lease}
        optional |= {"check": self.check, "origins": any(map(any, self.origins)) and self.origins}
        optional |= {"undo": self.undo, "lacks": self.lacks}
        head |= {name: value for name, value in optional.items() if value}
        if not self.complete:
            head["complete"] = False
        body = b"".join(_encode_parts(self.parts))
        packed = _PLAIN + body if len(body) <= _COMPRESSED_FROM else _ZLIB + zlib.compress(body, 1)
        return _encode_head(head).encode() + b"\n" + packed

    @classmethod
    def decode(cls, content: bytes) -> "Entry":
        """Return the entry of a stored form. Raises `CannotApply`."""
        try:
            line, _, body = content.partition(b"\n")
            head = json.loads(line)
            if head.pop("format") > FORMAT:
                raise CannotApply("an entry of the log has a newer format; update svc on this node")
            origins = tuple(Origin(*each) for each in head.pop("origins", ()))
            head.pop("claim", None)  # Of an earlier svc, whose other kinds of entries change nothing.
            raw = zlib.decompress(body[1:]) if body[:1] == _ZLIB else body[1:]
            return cls(parts=tuple(_decode_parts(raw)), origins=origins, **head)
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise CannotApply("an entry of the log is corrupt") from error


def _encode_parts(parts: Sequence[Part]) -> Iterator[bytes]:
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        yield _STATEMENT if isinstance(part, str) else _CHANGES
        yield len(data).to_bytes(8, "big")
        yield data


def _decode_parts(raw: bytes) -> Iterator[Part]:
    at = 0
    while at < len(raw):
        begin = at + 9
        end = begin + int.from_bytes(raw[at + 1 : begin], "big")
        if end > len(raw):
            raise ValueError("a part is cut off")
        data = raw[begin:end]
        yield data.decode("utf-8", "surrogatepass") if raw[at : at + 1] == _STATEMENT else data
        at = end


def chain_of(content: bytes) -> str:
    """Return the hash of an entry. It covers the entries before, because each contains the hash before it."""
    return sha256(content).hexdigest()[:32]


def messages_of(content: bytes) -> list[bytes]:
    """Return the messages that store an entry."""
    if len(content) <= SINGLE_BYTES:
        return [LAST + content]
    pieces = range(0, len(content), MESSAGE_BYTES)
    return [*(_MORE + content[at : at + MESSAGE_BYTES] for at in pieces), LAST]


class Assembler:
    """Joins messages to entries."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.after = 0

    def add(self, message: LogMessage) -> bytes | None:
        """Add the next message; return the entry if this was its last one."""
        self.after = message.sequence
        self._pieces.append(message.content[1:])
        if message.content[:1] == _MORE:
            return None
        content = b"".join(self._pieces)
        self._pieces.clear()
        return content

    def restart(self, after: int) -> None:
        """Forget pieces; the next message is the first one after a sequence."""
        self._pieces.clear()
        self.after = after
