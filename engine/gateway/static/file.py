"""Servable files: their representations, with precomputed response headers."""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

Header = tuple[bytes, bytes]

# Webpack and similar bundlers: `main.8f3c21ab.js`.
_HEX_HASH = re.compile(r"[.\-_](?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\.[^/]+$")
# Vite, Rollup and esbuild: eight characters of base64url or base32 at the end of the stem.
_MIXED_HASH = re.compile(r"[.\-_]([A-Za-z0-9_-]{8})\.[A-Za-z0-9]+(?:\.map)?$")
_CLASS_CHANGE = re.compile(
    r"(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[a-z])"
)

IMMUTABLE = b"public, max-age=31536000, immutable"
REVALIDATE = b"no-cache"


@lru_cache(maxsize=2048)
def has_content_hash(name: str) -> bool:
    """Return whether a file name carries a hash of the content, as bundlers write them.

    A false positive stays in browser caches for a year; a false negative costs a revalidation. So a date, a
    version or a camel-case word does not count as a hash.
    """
    if _HEX_HASH.search(name):
        return True
    match = _MIXED_HASH.search(name)
    if match is None or not re.search("[0-9]", match[1]) or not re.search("[A-Z]", match[1]):
        return False
    return len(_CLASS_CHANGE.findall(match[1])) >= 3


@dataclass(frozen=True, slots=True)
class Representation:
    """One encoding of a file.

    `path` is the file that has the bytes. `stamp` is its `file_stamp` while they are unchanged (`None`: the
    file never changes). `body` is the content if it is small. `headers` are those of a 200 without
    `content-length`; `lean_headers` those of a 304.
    """

    size: int
    etag: bytes
    _: KW_ONLY
    headers: tuple[Header, ...]
    lean_headers: tuple[Header, ...]
    path: str
    stamp: tuple[int, ...] | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file by its content codings; the negotiation uses `sizes` (coding to bytes)."""

    representations: Mapping[str, Representation]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FolderRedirect:
    """A redirect to a folder with an index page, whose URL ends with a slash."""

    name: str


def response_headers(
    name: str, content_type: str, coding: str, etag: bytes
) -> tuple[tuple[Header, ...], tuple[Header, ...]]:
    """Return the headers of a representation: those of its 200 (no `content-length`), those of its 304."""
    caching = IMMUTABLE if has_content_hash(name) else REVALIDATE
    lean = ((b"etag", etag), (b"cache-control", caching), (b"vary", b"accept-encoding"))
    specific = (
        (b"accept-ranges", b"bytes") if coding == "identity" else (b"content-encoding", coding.encode()),
        (b"content-type", content_type.encode()),
    )
    return specific + lean, lean
