"""Sources of served files: a live folder, or a packed image.

They find a file by its relative name, never outside the folder, and cache small files in memory.
"""

import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from io import BufferedReader
from pathlib import Path

from engine.artifact import FolderArtifact, StaticBundle
from engine.static_files.bundle import blob_path, is_servable, read_index
from engine.static_files.content_type import content_type
from engine.static_files.rules import RULE_FILES

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


def names_of(name: str) -> tuple[str, str]:
    """Return the file that a relative name stands for, and the index page of the folder that it may be.

    If that page is there and the file is not, the URL of the folder ends with a slash.
    """
    return (f"{name}{INDEX_PAGE}", "") if not name or name.endswith("/") else (name, f"{name}/{INDEX_PAGE}")


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


INDEX_PAGE = "index.html"
SMALL_FILE_BYTES = 256 * 1024
CACHE_BYTES = 32 * 1024 * 1024
# Time stamps tick in milliseconds, so a second write soon after the first may not change them. The content
# of a file that was written this recently is not cached.
FRESH_NS = 100_000_000
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def file_stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of a file's status that change with its content."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def open_file(path: str) -> BufferedReader:
    """Open a file for reading, without blocking on a FIFO; the caller closes it. Raises `OSError`."""
    return open(path, "rb", opener=lambda name, _: os.open(name, _OPEN))


class FolderSource:
    """A folder whose files may change at any time. Every lookup reads their status from the disk."""

    def __init__(self, artifact: FolderArtifact) -> None:
        self.rule_files = dict(artifact.rule_files)
        self._root = str(artifact.root.absolute())
        self._cache: OrderedDict[str, tuple[tuple[int, ...], StaticFile]] = OrderedDict()
        self._bytes = 0

    def find(self, name: str) -> StaticFile | FolderRedirect | None:
        """Return the file for a relative name (`url_path.relative_name`); or `None`."""
        file, page = names_of(name)
        try:
            status = os.stat(f"{self._root}/{file}")  # noqa: PTH116 - every request passes here
            if stat.S_ISREG(status.st_mode):
                return self._file(file, status)
            if page and stat.S_ISDIR(status.st_mode) and isinstance(self.find(page), StaticFile):
                return FolderRedirect(name)
        except (OSError, ValueError):
            pass
        return None

    def _file(self, name: str, status: os.stat_result) -> StaticFile | None:
        stamp = file_stamp(status)
        cached = self._cache.get(name)
        if cached is not None:
            if cached[0] == stamp:
                self._cache.move_to_end(name)
                return cached[1]
            self._evict(name)
        path = self._resolve(name)
        if path is None:
            return None
        return self._load(name, path)

    def _resolve(self, name: str) -> str | None:
        """Return a name's real path, or `None` if a symlink leads out of the folder or to a hidden file."""
        root = os.path.realpath(self._root)
        path = os.path.realpath(f"{self._root}/{name}")
        below = root if root.endswith("/") else root + "/"
        if not path.startswith(below) or not all(map(is_servable, path[len(below) :].split("/"))):
            return None
        return path

    def _load(self, name: str, path: str) -> StaticFile | None:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            stamp = file_stamp(status)
            if not stat.S_ISREG(status.st_mode):
                return None
            body = file.read(SMALL_FILE_BYTES + 1) if status.st_size <= SMALL_FILE_BYTES else None
            if body is not None and len(body) > SMALL_FILE_BYTES:
                body, stamp = None, file_stamp(os.fstat(file.fileno()))
            settled = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > FRESH_NS
            settled = settled and file_stamp(os.fstat(file.fileno())) == stamp
        if body is None:
            etag = hashlib.sha256(repr(stamp).encode()).hexdigest()[:32]
        else:
            etag = hashlib.sha256(body).hexdigest()[:32]
        size = stamp[2] if body is None else len(body)
        quoted = f'"{etag}"'.encode()
        full, lean = response_headers(content_type(name), "identity", quoted, hashed=False)
        identity = Representation(
            size, quoted, headers=full, lean_headers=lean, path=path, stamp=stamp, body=body
        )
        found = StaticFile({"identity": identity}, {"identity": size})
        if body is not None and settled:
            self._cache[name] = (stamp, found)
            self._bytes += size
            while self._bytes > CACHE_BYTES:
                self._evict(next(iter(self._cache)))
        return found

    def _evict(self, name: str) -> None:
        _, file = self._cache.pop(name)
        self._bytes -= file.sizes["identity"]


class BundleSource:
    """A packed image. Raises `engine.static_files.bundle.BundleCorrupt` if it cannot be read."""

    def __init__(self, artifact: StaticBundle) -> None:
        self._files: dict[str, StaticFile] = {}
        for entry in read_index(artifact):
            sha256, _ = entry.encodings["identity"]
            representations = {}
            for coding, (blob, size) in entry.encodings.items():
                suffix = "" if coding == "identity" else f"-{coding}"
                etag = f'"{sha256[:32]}{suffix}"'.encode()
                full, lean = response_headers(entry.content_type, coding, etag, hashed=entry.hashed)
                path = str(blob_path(artifact.folder, blob))
                representations[coding] = Representation(
                    size, etag, headers=full, lean_headers=lean, path=path
                )
            sizes = {coding: size for coding, (_, size) in entry.encodings.items()}
            self._files[entry.path] = StaticFile(representations, sizes)
        self.rule_files = {
            name: Path(self._files[name].representations["identity"].path).read_bytes()
            for name in RULE_FILES
            if name in self._files
        }

    def find(self, name: str) -> StaticFile | FolderRedirect | None:
        """Return the file for a relative name (`url_path.relative_name`); or `None`."""
        file, page = names_of(name)
        if file not in self._files and page in self._files:
            return FolderRedirect(name)
        return self._files.get(file)
