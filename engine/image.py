"""The format of a static image: a canonical `index.json` and `blobs/<sha256>`.

Owns reading and writing the index; the blobs are plain bytes that others copy and serve.

The index is JSON in UTF-8, keys sorted, no spaces, files in the order of their paths:
`{"files":[{"encodings":{"br":["<sha256>",<bytes>],…},"path":"a/b.css","type":"text/css"}],"version":1}`.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.artifact import ImageArtifact, ImageFile
from engine.errors import SvcError

INDEX = "index.json"
BLOBS = "blobs"
VERSION = 1


class ImageDamaged(SvcError):
    """An image in the cache can not be read as one."""

    code = "image-damaged"

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the static image {folder} is damaged: {reason}", "Delete the folder and build again."
        )


def encode_index(files: Iterable[ImageFile]) -> bytes:
    """Return the canonical index: equal files make equal bytes, whatever their order."""
    entries = [
        {"path": f.path, "type": f.content_type, "encodings": {k: list(v) for k, v in f.encodings.items()}}
        for f in sorted(files, key=lambda f: f.path)
    ]
    index = {"version": VERSION, "files": entries}
    return json.dumps(index, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def index_digest(index: bytes) -> str:
    """Return the image's name: the sha256 (hex) of its index."""
    return hashlib.sha256(index).hexdigest()


def decode_index(index: bytes) -> tuple[ImageFile, ...]:
    """Return the files of an index. Raises `ValueError` when it is not one."""
    document = json.loads(index)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"not an index of version {VERSION}")
    try:
        return tuple(_decode_file(entry) for entry in document["files"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("an entry has the wrong shape") from error


def _decode_file(entry: dict[str, Any]) -> ImageFile:
    encodings = {str(coding): (str(sha), int(size)) for coding, (sha, size) in entry["encodings"].items()}
    if "identity" not in encodings:
        raise ValueError("an entry has no identity encoding")
    return ImageFile(str(entry["path"]), str(entry["type"]), encodings)


def read_index(image: ImageArtifact) -> tuple[ImageFile, ...]:
    """Return the files of an image on disk. Raises `ImageDamaged`."""
    try:
        index = (image.folder / INDEX).read_bytes()
        if index_digest(index) != image.digest:
            raise ValueError("the index is not the one that its name says")
        return decode_index(index)
    except OSError as error:
        raise ImageDamaged(image.folder, error.strerror or "unreadable") from error
    except ValueError as error:
        raise ImageDamaged(image.folder, str(error)) from error


def blob_path(folder: Path, sha256: str) -> Path:
    """Return where the image in `folder` keeps a blob."""
    return folder / BLOBS / sha256
