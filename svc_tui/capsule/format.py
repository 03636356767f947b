"""Text of capsules: what they contain, and what was redacted."""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from engine.stepwise_json import dump_verbatim, load_verbatim
from screens.logs.exchange import exchange_lines
from screens.logs.trace import lines as trace_lines
from screens.widgets.rows import Line, sanitize
from svc_tui.capsule.container import EXCHANGE, FETCHES, STATEMENTS, Capsule, statements_of
from svc_tui.terminal.units import plural, size

MAX_CHARS = 200
"""Maximum characters of a list of parameters, and of the values of a row."""


def documents(capsule: Capsule) -> dict[str, Any]:
    return {
        **capsule.head,
        "exchange": capsule.documents[EXCHANGE],
        "statements": capsule.json(STATEMENTS, load_verbatim),
        "fetches": capsule.documents[FETCHES],
    }


def content_lines(head: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines about the parts of a capsule."""
    yield [("capsule", "bold"), (f"  {head['request_id']} of {head['project']}, svc {head['svc']}", "")]
    for name, artifact in head["artifacts"].items():
        included = "included" if artifact["included"] else "digest only"
        yield [("  artifact  ", "dim"), (f"{name}  sha256:{artifact['sha256'][:12]}…  {included}", "")]
    if tables := head.get("tables"):
        undone = f", {plural(tables['undone'], 'change')} undone" if tables["undone"] else ""
        yield [("  tables    ", "dim"), (f"{', '.join(tables['names'])} before the request{undone}", "")]
    for note in head["notes"]:
        yield [("  note      ", "warn"), (note, "")]


def redaction_lines(head: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines about what was redacted, and by which rule."""
    redacted: defaultdict[str, list[str]] = defaultdict(list)
    for location, name, count in head["redacted"]:
        redacted[location].append(f"{sanitize(name)} ({count})")
    if not redacted:
        yield [("  redacted  ", "dim"), ("nothing", "")]
    for location, names in redacted.items():
        yield [("  redacted  ", "dim"), (f"{location} {', '.join(names)}", "")]
    yield [("  Names like password, token or session are redacted, and their values everywhere.", "dim")]
    yield [("  Change this with --redact NAME and --no-redact NAME.", "dim")]


def capsule_lines(capsule: Capsule, width: int) -> Iterator[Line]:
    """Yield the lines about all of a capsule."""
    yield from content_lines(capsule.head)
    yield from redaction_lines(capsule.head)
    yield []
    for name, (digest, length) in capsule.head["members"].items():
        yield [(f"  {name:<40}", ""), (f"{size(length):>10}  sha256:{digest[:12]}…", "dim")]
    exchange = capsule.documents[EXCHANGE]
    yield []
    yield from exchange_lines(exchange)
    yield []
    yield from trace_lines(exchange["records"], width)
    for call in capsule.json(STATEMENTS, load_verbatim):
        yield []
        yield from _statement_lines(call)
    for call in capsule.documents[FETCHES]:
        yield []
        request, response = call["request"], call["response"]
        status = str(response["status"]) if response is not None else "no response"
        yield [("fetch  ", "violet"), (sanitize(f"{request['method']} {request['url']}  {status}"), "")]
        for message in (request, response or {"body": ""}):
            if body := b64decode(message["body"]).decode(errors="replace"):
                yield [("     ", ""), (_cut(sanitize(body)), "dim")]


def _statement_lines(call: Mapping[str, Any]) -> Iterator[Line]:
    request = call["request"]
    for sql, params in statements_of(request) if isinstance(request, dict) else [(str(request), None)]:
        yield [("sql  ", "violet"), (sanitize(sql), "")]
        if params:
            yield [("     ", ""), (_text(params), "dim")]
    for change in call["changes"]:
        row = _text(change["key"] or change["new_rowid"])
        yield [
            (f"     {change['operation'].lower()} {change['table']} {row}  ", "teal"),
            (_text(change["before"]), "bad"),
            (" → ", "dim"),
            (_text(change["after"]), "good"),
        ]


def _text(value: Any) -> str:
    text = "–" if value is None else sanitize(dump_verbatim(value))
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
