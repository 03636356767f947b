"""Key-value pairs on a stream with one message per key; a revision is a sequence of the stream.

A removed key leaves a message with the header `Svc-Removed`, so that its revision is never used again.

Parts of a key between slashes become tokens of a subject. A byte outside `[A-Za-z0-9_-]` becomes `=XX`, an
empty part `=`. A key of 512 characters makes a subject of at most 6 KiB, more than the default
`max_control_line` of nats-server.
"""

import re
from collections.abc import AsyncGenerator

from engine.bucket.protocols import MAX_VALUE_BYTES, StaleRevision, TooLarge, VersionedValue, check_name
from engine.fleet.stream import JetStream, Message

REMOVED = "Svc-Removed"
_ESCAPED = re.compile(rb"=([0-9A-F]{2})")
_NOT_PLAIN = re.compile(rb"[^A-Za-z0-9_-]")


def token(part: str) -> str:
    """Return a part of a key as one token."""
    return _NOT_PLAIN.sub(lambda match: b"=%02X" % match[0][0], part.encode()).decode() or "="


def _part(token: str) -> str:
    if token == "=":
        return ""
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), token.encode()).decode()


def subject_of(key: str) -> str:
    """Return the subject of a key."""
    return ".".join(map(token, key.split("/")))


def key_of(subject: str) -> str:
    """Return the key of a subject."""
    return "/".join(map(_part, subject.split(".")))


def filter_of(prefix: str) -> str:
    """Return the narrowest subject filter that matches every key with this prefix."""
    return ".".join([*map(token, prefix.split("/")[:-1]), ">"])


class StreamKeyValue:
    """Implements `engine.bucket.protocols.KeyValue`."""

    def __init__(self, stream: JetStream, seconds: float | None = None) -> None:
        """`seconds` limits how long `get` repeats its question."""
        self._stream, self._seconds = stream, seconds

    async def get(self, key: str) -> VersionedValue | None:
        """See the protocol. Raises `Unavailable`."""
        check_name(key)
        message = await self._stream.last(subject_of(key), self._seconds)
        return _value(message) if message is not None else None

    async def cas(self, key: str, value: bytes | None, revision: int | None) -> int | StaleRevision:
        """See the protocol. Raises `TooLarge`, and `Unavailable` when the value may be set or not."""
        check_name(key)
        if value is not None and len(value) > MAX_VALUE_BYTES:
            raise TooLarge(f"the value of {key}", len(value), MAX_VALUE_BYTES)
        headers = {REMOVED: "1"} if value is None else None
        while True:
            message = await self._stream.last(subject_of(key))
            current = _value(message) if message is not None else None
            if (current.revision if current is not None else None) != revision:
                return StaleRevision(current.revision if current is not None else None)
            expected = message.sequence if message is not None else 0
            new = await self._stream.publish(
                subject_of(key), value or b"", expected=expected, headers=headers
            )
            # Another write came first or is in progress: read its revision.
            if new is not None:
                return new

    async def list(self, prefix: str) -> list[VersionedValue]:
        """See the protocol. A key that changes meanwhile is listed with its old or its new value."""
        if prefix:
            check_name(prefix)
        values: dict[str, VersionedValue | None] = {}
        async for message in self._stream.messages(filter_of(prefix)):
            values[key_of(message.subject)] = _value(message)
        return [
            value for key, value in sorted(values.items()) if value is not None and key.startswith(prefix)
        ]

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[tuple[str, VersionedValue | None], None]:
        """Yield keys with this prefix that change after a revision, and their values; end with the bucket."""
        async for message in self._stream.follow(filter_of(prefix), after):
            key = key_of(message.subject)
            if key.startswith(prefix):
                yield key, _value(message)


def _value(message: Message) -> VersionedValue | None:
    if REMOVED in message.headers:
        return None
    return VersionedValue(key_of(message.subject), message.content, message.sequence)
