"""Text of a recorded exchange: both messages, its curl command, and its comparison with a replay. Pure.

Exchanges are documents of `/requests/<id>` of the control API.
"""

import json
import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple

from rich.cells import set_cell_size

from engine.stepwise_json import dump_verbatim, load_verbatim
from screens.logs.format import badge, size, status
from screens.logs.trace import pretty_json
from screens.widgets.rows import Line, Piece, Tone, sanitize, wrap_lines
from svc_tui.terminal.units import duration

_INDENT = "  "
_ABSENT = object()
MAX_ALIGNED = 2_000
"""Maximum elements of arrays that are aligned by content. Longer ones are compared by index."""


class LinePair(NamedTuple):
    """One line of each value; an empty text if a value has no such line."""

    before: str
    after: str
    differs: bool = False


def compare_json(
    before: Any, after: Any, indent: str = "", name: str = "", ends: tuple[str, str] = ("", "")
) -> Iterator[LinePair]:
    """Yield the lines of two values side by side. Raises `RecursionError` for deeply nested values.

    `name` stands before the first line, and each of `ends` after the last line of a value.
    """
    if isinstance(before, dict) and isinstance(after, dict) and (before or after):
        (opening, closing), children = "{}", _members(before, after)
    elif isinstance(before, list) and isinstance(after, list) and (before or after):
        (opening, closing), children = "[]", _elements(before, after)
    else:
        differs = before is _ABSENT or after is _ABSENT or _text(before) != _text(after)
        sides = (_lines(value, indent, name, end) for value, end in zip((before, after), ends, strict=True))
        for old, new in zip_longest(*sides, fillvalue=""):
            yield LinePair(old, new, differs)
        return
    first = f"{indent}{name}{opening}"
    yield LinePair(first, first)
    last = [
        max((at for at, child in enumerate(children) if child[side] is not _ABSENT), default=-1)
        for side in (1, 2)
    ]
    for at, (child, old, new) in enumerate(children):
        commas = "," * (at < last[0]), "," * (at < last[1])
        yield from compare_json(old, new, indent + _INDENT, child, commas)
    yield LinePair(f"{indent}{closing}{ends[0]}", f"{indent}{closing}{ends[1]}")


def _members(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the members of both objects in the order of the first; new ones come last."""
    names = dict.fromkeys([*before, *after])
    return [
        (f"{json.dumps(name, ensure_ascii=False)}: ", before.get(name, _ABSENT), after.get(name, _ABSENT))
        for name in names
    ]


def _elements(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[str, Any, Any]]:
    """Return the elements of both arrays; equal ones face each other."""
    if max(len(before), len(after)) > MAX_ALIGNED:
        return [("", old, new) for old, new in zip_longest(before, after, fillvalue=_ABSENT)]
    old_texts, new_texts = ([_text(value) for value in values] for values in (before, after))
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    return [
        ("", old, new)
        for _, a, b, c, d in matcher.get_opcodes()
        for old, new in zip_longest(before[a:b], after[c:d], fillvalue=_ABSENT)
    ]


def _text(value: Any) -> str:
    return dump_verbatim(value, sort_keys=True)


def _lines(value: Any, indent: str, name: str, end: str) -> list[str]:
    if value is _ABSENT:
        return []
    first, *rest = dump_verbatim(value, indent=len(_INDENT)).splitlines()
    lines = [f"{indent}{line}" for line in (name + first, *rest)]
    lines[-1] += end
    return lines


Recorded = Mapping[str, Any]
Same = Callable[[str, str], bool]
_ITS_OWN = frozenset({"x-request-id"})
"""Header fields that always differ."""
MAX_LINES = 2_000
"""Maximum number of compared body lines."""
_BOUNDARY = re.compile(r'multipart/.*;\s*boundary="?([^";]+)', re.IGNORECASE)
_FIELD = re.compile(r'\b(name=|filename=|content-type:)"?([^"\r\n]*)', re.IGNORECASE)
_PER_LINE = 16
"""Bytes per line of a binary body."""


def compare(before: Recorded, after: Recorded, width: int) -> list[Line]:
    """Return the comparison for a screen of `width` cells; `≠` marks differences besides the ids."""
    room = max((width - 4) // 2, 20)
    old_id, new_id = before["request_id"], after["request_id"]

    def same(left: str, right: str) -> bool:
        return left.replace(old_id, new_id) == right

    lines: list[Line] = [
        *_pair("recorded", "now", room, "dim", mark=False),
        *_pair(old_id, new_id, room, "dim", mark=False),
        *_sides([_answer(before)], [_answer(after)], room, _status(before) != _status(after)),
        *_sides([(_usage(before), "dim")], [(_usage(after), "dim")], room, differs=False),
    ]
    if omitted := after.get("omitted_headers"):
        lines.append([(f"no longer in the memory of svc dev, so not sent: {', '.join(omitted)}", "warn")])
    old, new = before["response"], after["response"]
    if old is not None and new is not None:
        lines += [[], [("header fields", "dim")], *_diff(_fields(old), _fields(new), room, same)]
        lines += [[], [("body", "dim")], *_body_diff(old, new, room, same)]
    lines += [[], [("records", "dim")], *_diff(_records(before), _records(after), room, same)]
    return lines


def body_lines(message: Mapping[str, Any]) -> list[str]:
    """Return the lines of a body: formatted JSON, the fields of a form, text, or a hex dump."""
    body = b64decode(message["body"])
    types = (value for name, value in message.get("headers", ()) if name == "content-type")
    lines = _field_lines(next(types, ""), body) or _text_lines(body)
    notes = ["… truncated"] if len(lines) > MAX_LINES else []
    if message["truncated"]:
        notes.append(f"… truncated: {size(len(body))} of {size(message['size'])} were recorded")
    return [*lines[:MAX_LINES], *notes]


def _text_lines(body: bytes) -> list[str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        starts = range(0, min(len(body), MAX_LINES * _PER_LINE), _PER_LINE)
        rows = ((at, body[at : at + _PER_LINE]) for at in starts)
        return [
            f"{at:06x}  {row.hex(' '):{3 * _PER_LINE - 1}}  {re.sub(r'[^ -~]', '.', row.decode('latin-1'))}"
            for at, row in rows
        ]
    return [sanitize(line) for line in pretty_json(text).splitlines()]


def _field_lines(content_type: str, body: bytes) -> list[str]:
    """Return the fields of a form: texts, and name, type and size of files. Source: RFC 7578"""
    boundary = _BOUNDARY.match(content_type)
    lines = []
    for part in body.split(f"--{boundary[1]}".encode(errors="replace"))[1:] if boundary else ():
        head, _, data = part.partition(b"\r\n\r\n")
        found = _FIELD.findall(head.decode(errors="replace"))
        fields = {name.lower(): value for name, value in found}
        data = data.removesuffix(b"\r\n")
        text = data.decode(errors="replace")
        if "filename=" in fields:
            text = f"{fields['filename=']}, {fields.get('content-type:', '').strip()}, {size(len(data))}"
        if "name=" in fields:
            lines += [sanitize(line) for line in f"{fields['name=']}: {text}".splitlines()]
    return lines


def _body_diff(old: Mapping[str, Any], new: Mapping[str, Any], room: int, same: Same) -> Iterator[Line]:
    """Yield bodies side by side: JSON by its structure, other bodies by their lines."""
    try:
        pairs = [*compare_json(*map(_json_body, (old, new)))]
    except (ValueError, RecursionError):
        yield from _diff(body_lines(old), body_lines(new), room, same)
        return
    for pair in pairs[:MAX_LINES]:
        left, right = sanitize(pair.before), sanitize(pair.after)
        yield from _pair(left, right, room, "", mark=pair.differs and not same(left, right))
    if len(pairs) > MAX_LINES:
        yield [("… truncated", "dim")]


def _json_body(message: Mapping[str, Any]) -> Any:
    """Return the object or array in a body. Raises `ValueError`, also for a truncated body."""
    body = b64decode(message["body"])
    if message["truncated"] or not body.lstrip().startswith((b"{", b"[")):
        raise ValueError("not a complete JSON object or array")
    return load_verbatim(body)


def _status(recorded: Recorded) -> int:
    return int(recorded["response"]["status"]) if recorded["response"] is not None else 0


def _answer(recorded: Recorded) -> Piece:
    if recorded["response"] is None:
        return f"no response {recorded['code']}".rstrip(), "bad"
    text, tone = status(_status(recorded))
    return f"{text} {recorded['code']}".rstrip(), tone


def _usage(recorded: Recorded) -> str:
    wall, compute = duration(recorded["wall_ns"]), f"{duration(recorded['compute_ns'])} cpu"
    return "   ".join(filter(None, (wall, compute, size(recorded["peak_memory"]))))


def _fields(message: Mapping[str, Any]) -> list[str]:
    return sorted(sanitize(f"{name}: {value}") for name, value in message["headers"] if name not in _ITS_OWN)


def _records(recorded: Recorded) -> list[str]:
    return [
        sanitize(f"{badge(record)[0]} {record['resource']}  {line}")
        for record in recorded["records"]
        if record["kind"] not in ("request", "platform")
        for line in record["body"].splitlines()[:MAX_LINES]
    ]


def _diff(before: Sequence[str], after: Sequence[str], room: int, same: Same) -> Iterator[Line]:
    if not before and not after:
        yield [("none", "dim")]
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for left, right in zip_longest(before[a:b], after[c:d], fillvalue=""):
            yield from _pair(left, right, room, "", mark=kind != "equal" and not same(left, right))


def _pair(left: str, right: str, room: int, tone: Tone, *, mark: bool) -> Iterator[Line]:
    left_tone: Tone = "bad" if mark and left else tone
    right_tone: Tone = "good" if mark and right else tone
    return _sides([(left, left_tone)], [(right, right_tone)], room, mark)


def _sides(left: Line, right: Line, room: int, differs: bool) -> Iterator[Line]:
    """Yield two texts side by side in columns of their own width."""
    parts = zip_longest(*(wrap_lines([line], room) for line in (left, right)))
    for number, (left_part, right_part) in enumerate(parts):
        text, tone = (left_part or [("", "")])[0]
        sign: Piece = (" ≠ " if differs and not number else "   ", "warn")
        yield [(set_cell_size(text, room), tone), sign, *(right_part or ())]


MAX_COLORED = 128 << 10
"""Maximum characters of a body that is colored."""
_LEXERS = {
    "application/javascript": "javascript", "text/javascript": "javascript", "application/json": "json",
    "application/xml": "xml", "image/svg+xml": "xml", "text/xml": "xml",
    "text/css": "css", "text/html": "html",
}  # fmt: skip
"""Names of lexers of Pygments by content type."""
_TONES: tuple[tuple[str, Tone], ...] = (
    ("Token.Comment", "dim"),
    ("Token.Keyword", "violet"),
    ("Token.Literal.Number", "teal"),
    ("Token.Literal.String", "good"),
    ("Token.Name.Attribute", "yellow"),
    ("Token.Name.Tag", "accent"),
)


def color_body(lines: Sequence[str], content_type: str) -> list[Line]:
    """Return the lines of a body with colors; without, if its type has none or it is too long."""
    media_type = content_type.partition(";")[0].strip().lower()
    for suffix in ("json", "xml"):
        if media_type.endswith(f"+{suffix}"):
            media_type = f"application/{suffix}"
    text = "\n".join(lines)
    if not lines or media_type not in _LEXERS or len(text) > MAX_COLORED:
        return [[(line, "")] for line in lines]
    from pygments.lexers import get_lexer_by_name  # Not at the start: it takes 50 ms.

    colored: list[list[tuple[str, Tone]]] = [[]]
    for kind, part in get_lexer_by_name(_LEXERS[media_type], stripnl=False, ensurenl=False).get_tokens(text):
        first, *others = part.split("\n")
        colored[-1].append((first, _tone(kind)))
        colored += [[(each, _tone(kind))] for each in others]
    return [[piece for piece in line if piece[0]] for line in colored]


def _tone(kind: Any) -> Tone:
    name = str(kind)
    return next((tone for prefix, tone in _TONES if name.startswith(prefix)), "")


REDACTED = "[redacted]"
"""The value of fields that are not recorded."""
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SET_BY_CURL = frozenset({"host", "content-length", "connection", "transfer-encoding", "x-request-id"})


def exchange_lines(recorded: Mapping[str, Any]) -> list[Line]:
    """Return the fields and bodies of a document of `/requests/<id>` of the control API."""
    request, response = recorded["request"], recorded["response"]
    about: Piece = (f"  {request['method']} {sanitize(request['target'])}", "dim")
    lines: list[Line] = [[("request", "bold"), about], *_message(request)]
    if response is None:
        return [*lines, [], [("no response", "bad")]]
    lines += [[], [("response", "bold"), ("  ", ""), status(response["status"])]]
    return [*lines, *_message(response)]


def _message(message: Mapping[str, Any]) -> Iterator[Line]:
    width = max((len(name) for name, _ in message["headers"]), default=0)
    for name, value in message["headers"]:
        tone: Tone = "dim" if value == REDACTED else ""
        yield [(f"  {sanitize(name):<{width}}  ", "accent"), (sanitize(value), tone)]
    yield []
    if not message["size"]:
        yield [("  no body", "dim")]
    else:
        content_type = next((value for name, value in message["headers"] if name == "content-type"), "")
        for line in color_body(body_lines(message), content_type):
            yield [("  ", ""), *line]


def request_text(request: Mapping[str, Any]) -> str:
    """Return a recorded request as text to edit. Raises `ValueError` if its body is binary or incomplete."""
    fields = [f"{name}: {value}" for name, value in request["headers"] if name != "content-length"]
    return "\n".join([f"{request['method']} {request['target']}", *fields, "", _text_body(request)])


def parse_request(text: str) -> dict[str, Any]:
    """Return the request of an edited text, for the control API. Raises `ValueError`."""
    head, _, body = text.partition("\n\n")
    first, *fields = head.splitlines() or [""]
    method, blank, target = first.strip().partition(" ")
    if not blank or not target.strip().startswith("/"):
        raise ValueError("the first line must have a method and a path, as in GET /")
    headers = []
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon:
            raise ValueError(f"{sanitize(field[:40])} is not a header field")
        headers.append([name.strip().lower(), value.strip()])
    encoded = b64encode(body.encode()).decode()
    return {"method": method.upper(), "target": target.strip(), "headers": headers, "body": encoded}


def _text_body(request: Mapping[str, Any]) -> str:
    """Return the body of a recorded request as text. Raises `ValueError` if it is binary or incomplete."""
    if request["truncated"]:
        raise ValueError(f"only the first {size(len(b64decode(request['body'])))} of the body are recorded")
    try:
        body = b64decode(request["body"]).decode()
    except UnicodeDecodeError as error:
        raise ValueError("the body is binary") from error
    if "\0" in body:
        raise ValueError("the body is binary")
    return body


def curl_command(request: Mapping[str, Any]) -> str:
    """Return a curl command for bash or zsh that sends a recorded request.

    Fields that are not recorded are omitted. Raises `ValueError` if the body is binary or incomplete.
    """
    body = _text_body(request)
    words, target = ["curl", "-i"], request["target"]
    words += ["--globoff"] if set("[]{}") & set(target) else []
    words += ["--path-as-is"] if "/." in target else []
    if request["method"] == "HEAD":
        words += ["--head"]  # With `-X HEAD`, curl waits for a body.
    elif request["method"] != ("POST" if body else "GET"):
        words += ["-X", request["method"]]
    words += [f"{request['scheme']}://{request['authority']}{target}"]
    names = set()
    for name, value in request["headers"]:
        names.add(name)
        if name not in _SET_BY_CURL and value != REDACTED:
            words += ["-H", f"{name}: {value}" if value else f"{name};"]  # `name:` would remove the field.
    if body and request["method"] != "HEAD":
        words += [] if "content-type" in names else ["-H", "content-type:"]
        words += ["--data-raw", body]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word of a shell command. Escapes control characters, which a terminal acts on in a paste."""
    if not _CONTROL.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("!", "\\x21")
    return "$'" + _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + "'"
