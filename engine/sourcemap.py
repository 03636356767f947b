"""Source maps: positions in a bundle mapped to positions in the user's files.

Implements the part of Source Map v3 (https://tc39.es/source-map/) that stack frames need, and rewrites
stack frames in printed lines. A map is decoded when the first frame appears.
"""

import json
import re
from bisect import bisect_right
from urllib.parse import unquote

BUNDLE = "svc-app.js"
"""File name of the bundle in guests' stack traces."""
_FRAME = re.compile(r"svc-(?:app|loader|glue)\.js[^:\n]*:(?P<line>\d{1,9}):(?P<column>\d{1,9})\s*")
"""The part of a frame after its last `@`."""
_DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
_OWN = re.compile(r"(^|/)(?:lanes/js/(?:compat|glue|guest)|toolchains/js-\w+/node_modules)/|^svc:")
_INLINE = re.compile(
    r"svc-(?:app\.js|loader\.js line \d{1,9} > eval):(?P<line>\d{1,9}):(?P<column>\d{1,9})(?!\d)"
)
"""A bundle position within a message of the JavaScript engine; dev evaluates the bundle in its loader."""
_MODULE = re.compile(r"^.+/[^/]*\.[cm]?[jt]sx?(?:/|$)")
"""A module that loads late is wrapped in a function with its path as the name."""
_MAX_BYTES = 64 << 20
_MAX_SOURCES = 4 << 20
_MAX_MAPPINGS = 8 << 20
"""Limits in bytes and characters. Decoding blocks the event loop for one second at most."""
_MAPPINGS = re.compile(rb'"mappings"\s*+:\s*+"([A-Za-z0-9+/,;]*+)"')
_SOURCES = re.compile(rb'"sources"\s*+:\s*+(?=\[)')
"""Members of a map, which is not parsed as a whole. A quote within a string has a backslash before it."""
_MAX_BITS = 60

Segment = tuple[int, int, int, int]
"""Column in the bundle, index of the source, line and column in that source; all from 0."""


class SourceMap:
    """One bundle's map."""

    def __init__(self, sources: list[str], mappings: str) -> None:
        self._sources = sources
        self._mappings = mappings
        self._lines: list[list[Segment]] | None = None

    @classmethod
    def parse(cls, data: bytes) -> "SourceMap":
        """Parse a map. An invalid or too large one maps nothing."""
        mappings, sources = (each.search(data, 0, _MAX_BYTES) for each in (_MAPPINGS, _SOURCES))
        if mappings is None or sources is None or len(mappings[1]) > _MAX_MAPPINGS:
            return cls([], "")
        text = data[sources.end() : sources.end() + _MAX_SOURCES].decode(errors="replace")
        try:
            names, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return cls([], "")
        return cls([unquote(str(source)) for source in names], mappings[1].decode())

    def locate(self, line: int, column: int) -> tuple[str, int, int] | None:
        """Return file, line and column (from 1) for a position in the bundle (from 1)."""
        if self._lines is None:
            self._lines = _decode(self._mappings)
        if not 0 < line <= len(self._lines):
            return None
        segments = self._lines[line - 1]
        # Vue's maps begin within a line: what is before the first position belongs to it.
        at = max(bisect_right(segments, (column - 1, len(self._sources), 0, 0)) - 1, 0)
        if not segments or not 0 <= segments[at][1] < len(self._sources):
            return None
        _, source, original_line, original_column = segments[at]
        return self._sources[source], original_line + 1, original_column + 1

    def rewrite(self, line: str) -> str | None:
        """Return a line with its stack frame mapped to the user's file; `None` for svc's own code."""
        if "svc-" not in line:
            return line
        # Splitting at the last @ takes linear time for any line.
        name, at, rest = line.rpartition("@")
        match = _FRAME.fullmatch(rest) if at else None
        if match is None:
            return _INLINE.sub(self._inline, line)
        source = self.locate(int(match["line"]), int(match["column"])) if rest.startswith(BUNDLE) else None
        if source is None or _OWN.search(source[0]):
            return None
        name = _named(name.strip())
        location = f"{source[0]}:{source[1]}:{source[2]}"
        return f"    at {name} ({location})" if name else f"    at ({location})"

    def _inline(self, match: re.Match[str]) -> str:
        location = self.locate(int(match["line"]), int(match["column"]))
        return match[0] if location is None else f"{location[0]}:{location[1]}:{location[2]}"


def _named(printed: str) -> str:
    """Return the name of a function: `promise callback*run/<` is a function within `run`."""
    parts = printed.rpartition("*")[2].split("/")
    # The bundle is wrapped in a function `svcApp`.
    name = "/".join(part for part in parts if part.rstrip("<") != "svcApp")
    return _MODULE.sub("", name).rstrip("/<").strip()


def _decode(mappings: str) -> list[list[Segment]]:
    """Decode the VLQ mappings up to the first malformed one."""
    lines: list[list[Segment]] = []
    source = original_line = original_column = 0
    for group in mappings.split(";"):
        segments: list[Segment] = []
        column = 0
        for field in group.split(","):
            values = _vlq(field)
            if values is None:
                return [*lines, segments]
            if values:
                column += values[0]
            if len(values) >= 4:
                source += values[1]
                original_line += values[2]
                original_column += values[3]
                segments.append((column, source, original_line, original_column))
        lines.append(segments)
    return lines


def _vlq(field: str) -> list[int] | None:
    values: list[int] = []
    value = shift = 0
    for char in field:
        digit = _DIGITS.get(char)
        if digit is None:
            return None
        value |= (digit & 31) << shift
        if digit & 32:
            shift += 5
            if shift > _MAX_BITS:
                return None
            continue
        values.append(-(value >> 1) if value & 1 else value >> 1)
        value = shift = 0
    return values
