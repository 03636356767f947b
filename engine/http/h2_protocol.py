"""Hypercorn's HTTP/2 protocol with bounded costs: of header blocks, of settings, and of choosing a stream."""

from collections import OrderedDict
from collections.abc import Container, Iterable
from typing import Any

import h2.connection
import h2.settings
from hpack import hpack
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hpack.hpack import Decoder
from hpack.struct import HeaderTuple
from hypercorn.protocol.h2 import H2Protocol
from priority.priority import DeadlockError

from engine.http.exchange import BODY_BYTES
from engine.http.frame_budget import FIELD_BYTES_PER_FRAME
from engine.http.h2_streams import Streams
from engine.http.huffman import decode_huffman
from engine.http.messages import HEADER_BYTES, MAX_FIELDS, is_request

hpack.decode_huffman = decode_huffman  # type: ignore[attr-defined, assignment]
_SETTINGS = frozenset(h2.settings.SettingCodes)


class _KnownSettings(h2.settings.Settings):
    """The settings of a client, without unknown ones (RFC 9113 6.5.2)."""

    def __setitem__(self, key: h2.settings.SettingCodes | int, value: int) -> None:
        if key in _SETTINGS:
            super().__setitem__(key, value)


class _BlockDecoder(Decoder):
    """Decodes header blocks, and measures them. The fields of an oversized block are dropped."""

    cost = 0
    """Cost of the decoded blocks in frames; the connection resets it."""
    oversized = False
    """Whether the last block is larger than a request head may be."""
    _updates = _fields = 0

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Decode a block. Raises `HPACKError`."""
        self._updates = self._fields = 0
        fields = list(super().decode(data, raw))
        size = sum(len(name) + len(value) for name, value in fields)
        self.cost += (size + 32 * len(fields)) // FIELD_BYTES_PER_FRAME  # RFC 7541 4.1
        self.oversized = size > HEADER_BYTES or len(fields) > MAX_FIELDS
        return [field for field in fields if field[0].startswith(b":")] if self.oversized else fields

    def _decode_indexed(self, data: bytes | memoryview) -> tuple[HeaderTuple, int]:
        self._count()
        return super()._decode_indexed(data)

    def _decode_literal(self, data: bytes | memoryview, should_index: bool) -> tuple[HeaderTuple, int]:
        self._count()
        return super()._decode_literal(data, should_index)

    def _count(self) -> None:
        self._fields += 1
        if self._fields > 2 * MAX_FIELDS:
            raise OversizedHeaderListError("too many fields")

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._updates += 1
        if self._updates > 2:  # RFC 7541 4.2
            raise HPACKDecodingError("more than two updates of the size of the table")
        return super()._update_encoding_context(data)


class SendOrder:
    """Lets the streams of a connection send in turn; it replaces a tree of priorities (RFC 9113 5.3.2)."""

    def __init__(self, streams: Container[int]) -> None:
        self._streams = streams
        self._ready = OrderedDict[int, None]()

    def __next__(self) -> int:
        """Return the next stream that is not blocked. Raises `DeadlockError` if there is none."""
        if not self._ready:
            raise DeadlockError
        stream = next(iter(self._ready))
        self._ready.move_to_end(stream)
        return stream

    def insert_stream(self, *_: Any, **__: Any) -> None:
        """Ignore a new stream, which has nothing to send, or a priority."""

    reprioritize = insert_stream

    def unblock(self, stream_id: int) -> None:
        """Add a stream to those that may send, if it exists."""
        if stream_id in self._streams:
            self._ready[stream_id] = None

    def block(self, stream_id: int) -> None:
        """Skip a stream until it is unblocked."""
        self._ready.pop(stream_id, None)

    remove_stream = block


class Protocol(H2Protocol):
    """The protocol of a connection."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        connection = self.connection
        values: Any = dict(connection.local_settings)
        values[h2.settings.SettingCodes.INITIAL_WINDOW_SIZE] = BODY_BYTES
        values[h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL] = 0
        connection.local_settings = h2.settings.Settings(client=False, initial_values=values)
        connection.remote_settings = _KnownSettings(client=True)
        connection.decoder = self.decoder = _BlockDecoder()
        self.priority: Any = SendOrder(self.stream_buffers)
        self.streams: Any = Streams(self)

    async def _create_stream(self, request: Any) -> None:
        """Start a request, or refuse one that is malformed (RFC 9113 8.1.1) or oversized."""
        fields = dict(request.headers)
        ended = request.stream_ended is not None
        if self.decoder.oversized:
            status = b"431"
        elif (
            fields[b":method"] == b"CONNECT"
            or fields[b":scheme"] not in (b"http", b"https")
            or not is_request(fields[b":method"], fields[b":path"], request.headers)
            or (ended and fields.get(b"content-length", b"").strip(b"0"))
        ):
            status = b"400"
        else:
            await super()._create_stream(request)
            return
        head = [(b":status", status), (b"content-length", b"0")]
        self.connection.send_headers(request.stream_id, head, end_stream=True)
