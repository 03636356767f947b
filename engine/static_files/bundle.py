"""Public file names, and the format of a static bundle: a canonical `index.json` and `blobs/<sha256>`.

The index is JSON in UTF-8, keys sorted, no spaces, files in the order of their paths:
`{"files":[{"encodings":{"br":["<sha256>",<bytes>],…},"path":"a/b.css","type":"text/css"}],"version":1}`.
A file whose name has a hash of its content also has `"hashed":true`.

An index can come from an untrusted client. Its values are validated for use as names, paths and headers.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.artifact import BundleFile, StaticBundle
from engine.errors import SvcError
from engine.files.sealed import content_digest
from engine.manifest import MANIFEST

WELL_KNOWN = ".well-known"


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is private.

    Private are names with a leading dot (except `.well-known`, RFC 8615), and the manifest.
    """
    return (name[:1] == "." and name != WELL_KNOWN) or name == MANIFEST


def is_servable(name: str) -> bool:
    """Return whether a file or folder of this name (one path segment) is served.

    Not served are hidden names, and names that no URL path can hold safely: control characters, backslashes,
    text that is not Unicode.
    """
    if not name or is_hidden(name):
        return False
    if name.isascii():
        return name.isprintable() and "\\" not in name
    return "\\" not in name and not any(
        c < " " or "\x7f" <= c < "\xa0" or "\ud800" <= c < "\ue000" for c in name
    )


INDEX = "index.json"
BLOBS = "blobs"
VERSION = 1
_CODINGS = frozenset({"identity", "br", "gzip"})
_SHA256 = re.compile(r"[0-9a-f]{64}")
MAX_INDEX_BYTES = 64 << 20
"""Maximum size of an index, for some 200,000 files."""
_TYPE = re.compile(r"[!-~][ -~]{0,254}")
SMALL_BYTES = 1 << 20
"""Indexes up to this size may be any JSON. `json` holds the interpreter while it reads one."""
_START, _SEPARATOR = b'{"files":[{"encodings":', b'},{"encodings":'
_END = b'}],"version":%d}' % VERSION
_MAX_ENTRY_BYTES = 16 << 10


class BundleCorrupt(SvcError):
    """A bundle has an invalid index or missing blobs."""

    code = "image-damaged"

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the static bundle {folder} is corrupt: {reason}",
            "Delete the folder and build again.",
            public_message=f"the static bundle is corrupt: {reason}",
        )


def encode_index(files: Iterable[BundleFile]) -> bytes:
    """Return the canonical index: equal files make equal bytes, whatever their order."""
    entries = [
        {"path": f.path, "type": f.content_type, "encodings": {k: list(v) for k, v in f.encodings.items()}}
        | ({"hashed": True} if f.hashed else {})
        for f in sorted(files, key=lambda f: f.path)
    ]
    index = {"version": VERSION, "files": entries}
    return json.dumps(index, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def index_digest(index: bytes) -> str:
    """Return the digest of a bundle: the sha256 (hex) of its index."""
    return hashlib.sha256(index).hexdigest()


def decode_index(index: bytes) -> tuple[BundleFile, ...]:
    """Parse an index. Raises `ValueError` if it is invalid."""
    try:
        if len(index) > SMALL_BYTES:
            return tuple(_decode_canonical(index))
        document = json.loads(index)
        if document["version"] != VERSION:
            raise ValueError(f"not an index of version {VERSION}")
        return tuple(_decode_file(entry) for entry in document["files"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("its structure is invalid") from error


def _decode_canonical(index: bytes) -> Iterator[BundleFile]:
    """Parse a canonical index file by file, so that other threads run meanwhile.

    No string of JSON contains the separator, because a quote in one has a backslash.
    """
    if not (index.startswith(_START) and index.endswith(_END)):
        raise ValueError("its structure is invalid")
    for entry in index[len(_START) : -len(_END)].split(_SEPARATOR):
        if len(entry) > _MAX_ENTRY_BYTES:
            raise ValueError("an entry is too long")
        yield _decode_file(json.loads(b'{"encodings":%b}' % entry))


def _decode_file(entry: dict[str, Any]) -> BundleFile:
    encodings = {coding: (sha256, size) for coding, (sha256, size) in entry["encodings"].items()}
    if "identity" not in encodings or not encodings.keys() <= _CODINGS:
        raise ValueError("an entry has no identity encoding, or an unknown one")
    for sha256, size in encodings.values():
        if not _SHA256.fullmatch(sha256) or type(size) is not int or size < 0:
            raise ValueError("an entry names no blob")
    path, content_type = entry["path"], entry["type"]
    if not all(map(is_servable, path.split("/"))) or not _TYPE.fullmatch(content_type):
        raise ValueError("an entry has a path or type that cannot be served")
    return BundleFile(path, content_type, encodings, entry.get("hashed") is True)


def read_index(image: StaticBundle) -> tuple[BundleFile, ...]:
    """Return the files of a bundle on disk. Raises `BundleCorrupt`."""
    try:
        if (image.folder / INDEX).stat().st_size > MAX_INDEX_BYTES:
            raise ValueError(f"its index is larger than {MAX_INDEX_BYTES >> 20} MiB")
        index = (image.folder / INDEX).read_bytes()
        if index_digest(index) != image.digest:
            raise ValueError("the index does not match its digest")
        files = decode_index(index)
        if len({file.path for file in files}) != len(files):
            raise ValueError("a path has two entries")
        return files
    except OSError as error:
        raise BundleCorrupt(image.folder, error.strerror or "unreadable") from error
    except ValueError as error:
        raise BundleCorrupt(image.folder, str(error)) from error


def blob_path(folder: Path, sha256: str) -> Path:
    """Return the path of a blob in the bundle `folder`."""
    return folder / BLOBS / sha256


def has_blobs(folder: Path, blobs: Iterable[tuple[str, int]], *, verify: bool) -> bool:
    """Return whether the bundle `folder` has all of these blobs, each a sha256 (hex) and a size in bytes.

    `verify` compares digests instead of sizes. A file may be truncated or altered after a power cut.
    """
    try:
        if verify:
            return all(content_digest(blob_path(folder, sha256)) == sha256 for sha256, _ in blobs)
        return all(blob_path(folder, sha256).stat().st_size == size for sha256, size in blobs)
    except OSError:
        return False
