"""From the path of a URL, as the client sent it, to the relative name of a file to serve, and back.

Owns decoding and refusal; it asks no file system. What it lets through holds no `..`, no hidden name, no
separator in disguise, so that joining it to a folder stays below that folder (symlinks aside).
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from engine.static_files.names import is_servable

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@lru_cache(maxsize=2048)
def relative_name(path: str) -> str | None:
    """Return the file name that a raw URL path (no query) asks for, `None` when nothing may answer it.

    `/a%20b/c` gives `a b/c`, `/a/` gives `a/`, `/` gives the empty string. Percent escapes are decoded
    once. `None`: a bad escape, text that is not UTF-8, an escaped slash, an empty segment, and every
    segment that `is_servable` leaves out (which `.` and `..` are among).
    """
    if not path.startswith("/"):
        return None
    if path == "/":
        return ""
    if "%" in path and _BAD_ESCAPE.search(path):
        return None
    folder = path.endswith("/")
    segments = []
    for raw in path[1 : -1 if folder else None].split("/"):
        try:
            segment = unquote_to_bytes(raw).decode()
        except UnicodeError:
            return None
        if "/" in segment or not is_servable(segment):
            return None
        segments.append(segment)
    return "/".join(segments) + ("/" if folder else "")


def url_path(name: str) -> str:
    """Return the path of a URL for a relative name: the inverse of `relative_name`."""
    return "/" + quote(name)
