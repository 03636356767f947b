"""Compressed content, alone or as its difference from a similar content: frames of zstd (RFC 8878).

A difference is a frame whose prefix is the other content, the template. Frames name neither what they contain
nor their template, so callers verify a digest.
"""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME = b"\x28\xb5\x2f\xfd"
"""The first bytes of a frame."""
_LEVEL = 9
_MAX_WINDOW_LOG = 27
"""A reader needs up to 128 MiB for a frame, besides its content and its template."""
_CHUNK_BYTES = 1 << 20
_MIN_PREFIX = 8


class FrameCorrupt(Exception):
    """A frame is incomplete or altered, or its content is longer than permitted."""


def compress(content: bytes, template: bytes = b"") -> bytes:
    """Return a frame of a content, as its difference from `template` if that is not empty."""
    window = min(max(10, (len(content) + len(template)).bit_length()), _MAX_WINDOW_LOG)
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.window_log: window,
    }
    compressor = zstd.ZstdCompressor(options=options, zstd_dict=_prefix(template))
    return compressor.compress(content, zstd.ZstdCompressor.FLUSH_FRAME)


def decompress(frame: bytes, template: bytes = b"", *, limit: int) -> bytes:
    """Return the content of a frame, at most `limit` bytes. Raises `FrameCorrupt`."""
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
    decompressor = zstd.ZstdDecompressor(zstd_dict=_prefix(template), options=options)
    data, parts, size = frame, [], 0
    while not decompressor.eof:
        try:
            part = decompressor.decompress(data, _CHUNK_BYTES)
        except zstd.ZstdError as error:
            raise FrameCorrupt(str(error)) from error
        data, size = b"", size + len(part)
        if not part and decompressor.needs_input:
            raise FrameCorrupt("incomplete")
        if size > limit:
            raise FrameCorrupt(f"more than {limit} bytes")
        parts.append(part)
    if decompressor.unused_data:
        raise FrameCorrupt("followed by other data")
    return b"".join(parts)


def _prefix(template: bytes) -> tuple[zstd.ZstdDict, int] | None:
    # A dictionary cannot be shorter, and a prefix that short saves nothing.
    return zstd.ZstdDict(template, is_raw=True).as_prefix if len(template) >= _MIN_PREFIX else None
