"""Finds the line of each key in a TOML text that `tomllib` has already read without complaint.

Owns positions only, never values. Keys inside an inline table or an array have the line they stand in.
"""

import re

_BARE_OR_QUOTED = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.|=|\]|$)""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*''', re.DOTALL
)

Path = tuple[str, ...]


def places(text: str) -> dict[Path, int]:
    """Return the line (from 1) of each table and key, by path."""
    found: dict[Path, int] = {}
    table: Path = ()
    at = 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        number = text.count("\n", 0, at) + 1
        stripped = line.lstrip()
        if stripped.startswith("["):
            table, _ = _key(stripped.lstrip("["))
            found.setdefault(table, number)
        elif stripped and not stripped.startswith("#"):
            path, length = _key(line)
            for depth in range(1, len(path) + 1):
                found.setdefault(table + path[:depth], number)
            end = _value_end(text, at + length)
            _inner_keys(text, at + length, end, table + path, found)
        at = end + 1
    return found


def _key(text: str) -> tuple[Path, int]:
    """Read a dotted key; return it and the length up to and with the `=` or `]` behind it."""
    parts: list[str] = []
    at = 0
    while match := _BARE_OR_QUOTED.match(text, at):
        part = match.group(1)
        parts.append(part[1:-1] if part[0] in "\"'" else part)
        at = match.end()
        if match.group(2) != ".":
            break
    return tuple(parts), at


def _value_end(text: str, at: int) -> int:
    """Return where the value that starts at `at` ends: the newline outside strings and brackets."""
    depth = 0
    while at < len(text):
        match = _STRING.match(text, at)
        if match:
            at = match.end()
            continue
        char = text[at]
        if char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        elif char == "\n" and depth <= 0:
            return at
        at += 1
    return len(text)


def _inner_keys(text: str, at: int, end: int, base: Path, found: dict[Path, int]) -> None:
    """Note the keys of an inline table at their own lines."""
    while at < end and text[at] in " \t":
        at += 1
    if at >= end or text[at] != "{":
        return
    at += 1
    expecting = True
    depth = 0
    while at < end:
        if expecting and depth == 0 and text[at] not in " \t\r\n,}":
            path, length = _key(text[at:end])
            if not path:
                return
            found.setdefault(base + path, text.count("\n", 0, at) + 1)
            at += length
            expecting = False
            continue
        match = _STRING.match(text, at)
        if match:
            at = match.end()
            continue
        char = text[at]
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            expecting = True
        at += 1
