"""Conversion between URL paths and relative file names.

An accepted name contains neither `..`, nor a hidden name, nor an escaped separator. So joining it to a folder
stays below that folder (symlinks aside). The file system is not read.
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from engine.static_files.names import is_servable

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


@lru_cache(maxsize=2048)
def relative_name(path: str) -> str | None:
    """Return the file name for a raw URL path (no query), or `None` if no file may be served for it.

    `/a%20b/c` gives `a b/c`, `/a/` gives `a/`, `/` gives the empty string. Percent escapes are decoded
    once. Returns `None` for a bad escape, text that is not UTF-8, an escaped slash, an empty segment, and
    every segment that `is_servable` rejects (`.` and `..` among them).
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
