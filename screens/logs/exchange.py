"""Text of a recorded exchange: fields and colored bodies of both messages, and its curl command. Pure."""

import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from screens.logs.format import size, status
from screens.logs.replay import body_lines
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line, Tone

MAX_COLORED = 128 << 10
"""Maximum characters of a body that is colored."""
_LEXERS = {
    "application/javascript": "javascript",
    "application/json": "json",
    "application/xml": "xml",
    "image/svg+xml": "xml",
    "text/css": "css",
    "text/html": "html",
    "text/javascript": "javascript",
    "text/xml": "xml",
}
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
    lines: list[Line] = [
        [("request", "bold"), (f"  {request['method']} {sanitize(request['target'])}", "dim")]
    ]
    lines += _message(request)
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
