"""Text edits of mounts and `egress` in a manifest. Each replaces one span and preserves all other bytes.

TOML can express `mounts` as an inline table, as a table with a header, or as dotted keys; they may also be
missing.
"""

import re
from operator import attrgetter
from typing import NamedTuple

from engine.manifest.positions import STRING, KeyPath, Pair, Positions, find_positions

_INDENT = re.compile(r"[ \t]*")


class Splice(NamedTuple):
    """Replacement of the text from offset `start` up to `end` by `text`."""

    start: int
    end: int
    text: str


def added(text: str, resource: str, pattern: str, target: str) -> Splice:
    """Return the edit that adds a mount after the existing ones, or after the keys of its resource."""
    table: KeyPath = ("resource", resource)
    mounts: KeyPath = (*table, "mounts")
    positions = find_positions(text)
    mount = f"{_quoted(pattern)} = {_quoted(target)}"
    if mounts in positions.pairs:
        return _into_inline(text, positions, mounts, mount)
    if mounts in positions.headers:
        siblings = _below(positions, mounts)
        if not siblings:
            header = positions.headers[mounts]
            return _line(text, header, mount, text.rfind("\n", 0, header) + 1)
        return _line(text, siblings[-1].end, mount, siblings[-1].start)
    if dotted := _below(positions, mounts):
        return _after(text, positions, dotted[-1], mounts, mount)
    return _after(text, positions, _below(positions, table)[-1], table, f"mounts = {{ {mount} }}")


def removed(text: str, resource: str, pattern: str) -> Splice:
    """Return the edit that removes a mount, and the key `mounts` if it would be empty.

    A comment on the mount's own line is removed; a comment after an inline table stays.
    """
    mounts: KeyPath = ("resource", resource, "mounts")
    positions = find_positions(text)
    pair = positions.pairs[*mounts, pattern]
    if pair.base not in positions.pairs:
        return _without_line(text, pair)
    siblings = _inside(positions, pair.base)
    if len(siblings) > 1 or pair.base != mounts:
        return _without_element(siblings, pair)
    holder = positions.pairs[mounts]
    if holder.base in positions.pairs:
        return _without_element(_inside(positions, holder.base), holder)
    rest = text[holder.end : _line_end(text, holder.end)]
    return Splice(holder.value, holder.end, "{}") if rest.strip() else _without_line(text, holder)


def changed(text: str, resource: str, pattern: str, to: str, target: str) -> tuple[Splice, Splice]:
    """Return the edits that change pattern and target of a mount, the later position first."""
    pair = find_positions(text).pairs["resource", resource, "mounts", pattern]
    key = Splice(pair.parts[-1], pair.key_end, _quoted(to))
    return Splice(pair.value, pair.end, _quoted(target)), key


def origin_added(text: str, resource: str, origin: str) -> Splice:
    """Return the edit that adds an entry to `egress`: first in an array of several lines, else last."""
    table: KeyPath = ("resource", resource)
    positions = find_positions(text)
    holder = positions.pairs.get((*table, "egress"))
    if holder is None:
        last = _below(positions, table)[-1]
        return _after(text, positions, last, table, f"egress = [{_quoted(origin)}]")
    entries = _entries(text, positions, holder, resource)
    if not entries:
        return Splice(holder.value, holder.end, f"[{_quoted(origin)}]")
    start, line = entries[0][0], text.rfind("\n", 0, entries[0][0]) + 1
    if line <= holder.value:
        return Splice(entries[-1][1], entries[-1][1], f", {_quoted(origin)}")
    indent = text[line:start]
    return Splice(
        start, start, f"{_quoted(origin)},\n{indent}" if indent.isspace() else f"{_quoted(origin)}, "
    )


def origin_removed(text: str, resource: str, index: int) -> Splice:
    """Return the edit that removes an entry of `egress`, and the key if it would be empty."""
    positions = find_positions(text)
    holder = positions.pairs["resource", resource, "egress"]
    entries = _entries(text, positions, holder, resource)
    if index < len(entries) - 1:
        return Splice(entries[index][0], entries[index + 1][0], "")
    if index:
        return Splice(entries[index - 1][1], entries[index][1], "")
    if holder.base in positions.pairs:
        return _without_element(_inside(positions, holder.base), holder)
    return _without_line(text, holder)


def _entries(text: str, positions: Positions, holder: Pair, resource: str) -> list[tuple[int, int]]:
    """Return start and end of each entry of `egress`."""
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    entries: list[tuple[int, int]] = []
    while (position := positions.first.get(("resource", resource, "egress", len(entries)))) is not None:
        start = lines[position.line - 1] + position.column - 1
        match = STRING.match(text, start, holder.end)
        assert match is not None  # The entries of a valid manifest are strings.
        entries.append(match.span())
    return entries


def spliced(original: str, splice: Splice) -> str:
    """Return the original text with an edit whose offsets refer to `original` with line ends `\\n`.

    New lines take the line end of the line before them, or else of the line after them.
    """
    returns = [match.start() - index for index, match in enumerate(re.finditer("\r\n", original))]
    start, end = (offset + sum(at < offset for at in returns) for offset in splice[:2])
    text = splice.text
    if "\n" in text:
        before = original.rfind("\n", 0, start)
        ending = before if before >= 0 else original.find("\n")
        if ending > 0 and original[ending - 1] == "\r":
            text = text.replace("\n", "\r\n")
    return original[:start] + text + original[end:]


def _below(positions: Positions, path: KeyPath) -> list[Pair]:
    """Return the pairs that belong to the table `path`, relative to it or to a table around it."""
    has_table = path in positions.headers or path in positions.pairs
    bases = {path} if has_table else {path[:length] for length in range(len(path) + 1)}
    below = [pair for key, pair in positions.pairs.items() if key[: len(path)] == path != key]
    return sorted((pair for pair in below if pair.base in bases), key=attrgetter("start"))


def _inside(positions: Positions, table: KeyPath) -> list[Pair]:
    return sorted((pair for pair in positions.pairs.values() if pair.base == table), key=attrgetter("start"))


def _into_inline(text: str, positions: Positions, mounts: KeyPath, mount: str) -> Splice:
    pair, elements = positions.pairs[mounts], _inside(positions, mounts)
    if elements:
        return Splice(elements[-1].end, elements[-1].end, f", {mount}")
    blank = text[pair.value + 1 : pair.end - 1]
    return Splice(pair.end - 1, pair.end - 1, f"{mount}{blank}" if blank else f" {mount} ")


def _after(text: str, positions: Positions, last: Pair, table: KeyPath, key: str) -> Splice:
    """Return the edit that adds a pair of a table after its pair `last`, in the same form."""
    key = text[last.start : last.parts[len(table) - len(last.base)]] + key
    if last.base in positions.pairs:
        return Splice(last.end, last.end, f", {key}")
    return _line(text, last.end, key, last.start)


def _line(text: str, behind: int, key: str, like: int) -> Splice:
    """Return the edit that adds a line for a pair below `behind`, indented as the line of `like`."""
    end = _line_end(text, behind)
    indent = _INDENT.match(text, text.rfind("\n", 0, like) + 1)
    line = (indent.group() if indent else "") + key
    return Splice(end + 1, end + 1, f"{line}\n") if end < len(text) else Splice(end, end, f"\n{line}")


def _without_line(text: str, pair: Pair) -> Splice:
    begin, end = text.rfind("\n", 0, pair.start) + 1, _line_end(text, pair.end)
    return Splice(begin, end + 1, "") if end < len(text) else Splice(max(begin - 1, 0), end, "")


def _without_element(siblings: list[Pair], pair: Pair) -> Splice:
    index = siblings.index(pair)
    if index:
        return Splice(siblings[index - 1].end, pair.end, "")
    return Splice(pair.start, siblings[1].start, "")


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


def _quoted(text: str) -> str:
    """Quote a text that has no quotes, backslashes or control characters."""
    return f'"{text}"'
