"""Detection of transactions that a damaged write-ahead log has lost.

SQLite recovers a log up to the first damaged frame and ignores the rest. A committed frame of the same log
after that is a transaction that was acknowledged and is lost. Source: https://www.sqlite.org/walformat.html
"""

import struct
from contextlib import closing
from pathlib import Path

import apsw

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_CHUNK_FRAMES = 256


def lost_commits(path: Path) -> int:
    """Return the number of transactions that recovery could not read, as far as the log still shows them.

    Call it before the file is opened: the last connection that is closed removes the log. A file that cannot
    be read has 0.
    """
    log = path.with_name(path.name + "-wal")
    try:
        if log.stat().st_size <= _HEADER_BYTES:
            return 0
        with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as writer:
            writer.execute("begin immediate")  # Recovers the log, and excludes other writers.
            with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as reader:
                page_size = reader.pragma("page_size")
                reader.pragma("schema_version")  # Opens the log.
                frames, _ = reader.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            return _commits_after(log, frames, page_size)
    except (apsw.Error, OSError):  # Another process writes and has recovered the log, or there is none.
        return 0


def _commits_after(log: Path, frames: int, page_size: int) -> int:
    frame_bytes = _FRAME_HEADER_BYTES + page_size
    commits = 0
    with log.open("rb") as file:
        start = file.read(_HEADER_BYTES + _FRAME_HEADER_BYTES)
        salts = start[16:24] if _is_header(start[:_HEADER_BYTES]) else start[40:48]
        file.seek(_HEADER_BYTES + frames * frame_bytes)
        while chunk := file.read(frame_bytes * _CHUNK_FRAMES):
            for at in range(0, len(chunk) - frame_bytes + 1, frame_bytes):
                _page, pages, frame_salts = struct.unpack_from(">II8s", chunk, at)
                commits += pages > 0 and frame_salts == salts
    return commits


def _is_header(header: bytes) -> bool:
    """Return whether the checksum of a log's header is right."""
    order = ">" if header[3] & 1 else "<"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return struct.unpack(">2I", header[24:]) == (first, second)
