"""Servable files: their representations, with precomputed response headers."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

Header = tuple[bytes, bytes]

IMMUTABLE = b"public, max-age=31536000, immutable"
REVALIDATE = b"no-cache"


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
    content_type: str, coding: str, etag: bytes, *, hashed: bool
) -> tuple[tuple[Header, ...], tuple[Header, ...]]:
    """Return the headers of a representation: those of its 200 (no `content-length`), those of its 304."""
    caching = IMMUTABLE if hashed else REVALIDATE
    lean = ((b"etag", etag), (b"cache-control", caching), (b"vary", b"accept-encoding"))
    specific = (
        (b"accept-ranges", b"bytes") if coding == "identity" else (b"content-encoding", coding.encode()),
        (b"content-type", content_type.encode()),
    )
    return specific + lean, lean
