"""Conditions and ranges of HTTP requests (RFC 9110, 13 and 14)."""

import re
from typing import Literal

_ETAG = re.compile(rb'(W/)?("[^"\x00-\x20\x7f]*")')
_RANGE = re.compile(rb"\s*bytes\s*=\s*(\d{0,1000})\s*-\s*(\d{0,1000})\s*", re.IGNORECASE)


def matches(header: bytes, etag: bytes) -> bool:
    """Return whether `If-Match` names the entity tag (strong comparison); otherwise the response is a 412."""
    return header.strip() == b"*" or (b"", etag) in _ETAG.findall(header)


def none_match(header: bytes, etag: bytes) -> bool:
    """Return whether `If-None-Match` names the entity tag (weak comparison), which calls for a 304."""
    return header.strip() == b"*" or etag in (tag for _, tag in _ETAG.findall(header))


def byte_range(header: bytes, size: int) -> tuple[int, int] | Literal["unsatisfiable"] | None:
    """Return the single requested range as (first, one past the last) byte of `size`.

    Returns `None` if the header has to be ignored: another unit, several ranges, or an invalid range.
    """
    match = _RANGE.fullmatch(header)
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        if not last:
            return None
        length = min(int(last), size)
        return (size - length, size) if length else "unsatisfiable"
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size:
        return "unsatisfiable"
    return start, min(int(last) + 1, size) if last else size
