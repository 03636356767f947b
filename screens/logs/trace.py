"""Text of one request: its spans as a tree with a time axis, and its records. Does not import Textual."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size

from engine.stepwise_json import dump_verbatim, load_verbatim
from screens.logs.format import Document, badge, began, day, method, size, status, usage_text
from screens.widgets.rows import Line, Tone, sanitize
from svc_tui.terminal.units import clock, duration, plural

_Timed = tuple[int, Document]
MIN_NAME, MAX_NAME = 20, 48
"""Minimum and maximum width of a name; without calls, it is the minimum."""
MIN_BAR, MIN_CALL_BAR = 10, 14
"""Minimum width of a bar, without and with calls."""
NUMBERS, USAGE, BYTES = 14, 23, 25
"""Width of status and duration before the bar; of the usage after it; of the bytes after that."""
MAX_TEXTS = 20
"""Maximum names that are shown in full below the waterfall."""
MIN_EQUAL = 4
"""Minimum equal calls in a row that are shown as one."""
LONG_WAIT_NS = 1_000_000
"""Minimum time that a statement or a name lookup waited for it to be shown."""

_TONES: Mapping[str, Tone] = {
    "request": "notice", "sql": "violet", "door": "yellow", "fetch": "orange", "span": "teal",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A span or a call, and its depth below the root. `start_ns` is in nanoseconds of the Unix epoch."""

    document: Document
    depth: int
    start_ns: int

    @property
    def is_call(self) -> bool:
        """True for a call of the code of a resource."""
        return "name" in self.document

    @property
    def name(self) -> str:
        """The resource, or the name of the call on one line."""
        if self.is_call:
            return sanitize(" ".join(self.document["name"].split()))
        return self.document["resource"] or "–"


def spans(documents: Sequence[Document]) -> list[Span]:
    """Return the spans and calls of a request in tree order. A span without a known parent is a root.

    Of spans with one id, the first has all children.
    """
    requests = [document for document in documents if document["kind"] == "request"]
    span_ids = {document["span_id"] for document in requests}
    children: dict[str, list[_Timed]] = {}
    for document in requests:
        start, parent = began(document), document["parent"]
        children.setdefault(parent if parent in span_ids else "", []).append((start, document))
        for call in document.get("calls", ()):
            children.setdefault(call["parent"], []).append((start + call["start_ns"], call))
    parents = frozenset(children)

    def last_first(parent: str, depth: int) -> list[Span]:
        timed = sorted(children.pop(parent, ()), key=lambda child: child[0])
        return [Span(document, depth, start) for start, document in _merge(timed, parents)][::-1]

    tree, waiting = [], last_first("", 0)
    while waiting:
        tree.append(span := waiting.pop())
        waiting += last_first(span.document["span_id"], span.depth + 1)
    return tree


def _merge(spans: Sequence[_Timed], parents: Container[str]) -> Iterator[_Timed]:
    """Yield the children of a span; at least `MIN_EQUAL` equal calls in a row become one call."""
    for key, group in groupby(spans, key=lambda child: _equality(child[1], parents)):
        calls = list(group)
        if key is None or len(calls) < MIN_EQUAL:
            yield from calls
            continue
        (first, document), (last, final) = calls[0], calls[-1]
        totals: dict[str, Any] = {}
        for _, call in calls:
            for name, value in call["attributes"].items():
                if isinstance(value, int):
                    totals[name] = totals.get(name, 0) + value
        totals.pop("first_byte_ns", None)
        name, wall_ns = f"{len(calls)} × {document['name']}", last + final["wall_ns"] - first
        yield first, {**document, "name": name, "wall_ns": wall_ns, "attributes": totals}


def _equality(document: Document, parents: Container[str]) -> object:
    """Return what equal calls have in common; None for a call that is shown by itself."""
    if "name" not in document or document["code"] or document["span_id"] in parents:
        return None
    return document["kind"], document["name"], document["status"]


def waterfall(tree: Sequence[Span], width: int) -> Iterator[Line]:
    """Yield the lines of a tree for `width` cells, and the names that do not fit in full."""
    has_calls = any(span.is_call for span in tree)
    name_cells = max(MIN_NAME, min(MAX_NAME, width // 2 - NUMBERS)) if has_calls else MIN_NAME
    head, min_bar = name_cells + NUMBERS, MIN_CALL_BAR if has_calls else MIN_BAR
    # Show bytes, memory and CPU time beside the bar as far as they fit.
    usage_cells = next((cells for cells in (USAGE + BYTES, USAGE) if head + min_bar + cells <= width), 0)
    room = max(width - head - usage_cells, min_bar)
    first = min(span.start_ns for span in tree)
    scale = room / max(max(span.start_ns + span.document["wall_ns"] for span in tree) - first, 1)
    texts: dict[str, None] = {}
    for span in tree:
        document = span.document
        start = min(max(int((span.start_ns - first) * scale), 0), room - 1)
        length = min(max(round(document["wall_ns"] * scale), 1), room - start)
        branch = "" if not span.depth else "  " * min(span.depth - 1, MAX_NAME) + "└ "
        name = branch + span.name
        if cell_len(name) > name_cells - 1:
            texts[span.name] = None
            name = set_cell_size(name, name_cells - 2) + "… "
        code = document["status"]
        # A statement that succeeded has no status.
        is_quiet = span.is_call and (not code or (document["kind"] == "sql" and code < 300))
        if span.is_call:
            notes, transfer = _call_notes(document)
        else:
            notes, transfer = usage_text(document), f"  {_transfer(document)}"
        usage = f"  {notes:<{USAGE - 2}}"
        if len(usage) > USAGE:
            usage = usage[: USAGE - 1] + "…"
        tone = "bad" if document["code"] else _TONES.get(document["kind"], "dim")
        yield [
            (set_cell_size(name, name_cells), "" if span.is_call else "teal"),
            ("   ", "") if is_quiet else status(code),
            (f" {duration(document['wall_ns']):>8}  ", ""),
            (" " * start + "━" * length + " " * (room - start - length), tone),
            *(((usage, "bad" if span.is_call and document["code"] else "dim"),) if usage_cells else ()),
            *(((transfer, "dim"),) if usage_cells > USAGE else ()),
        ]
    omitted = sum(span.document.get("calls_omitted", 0) for span in tree)
    if omitted:
        yield [(f"… {omitted:,} further calls are not recorded", "dim")]
    if texts:
        yield []
        for text in list(texts)[:MAX_TEXTS]:
            yield [(text, "dim")]


def _call_notes(call: Document) -> tuple[str, str]:
    """Return the usage and the bytes of a call."""
    attributes = call["attributes"]
    notes = [call["code"]] if call["code"] else []
    if call["kind"] == "span":
        message = attributes.get("otel.status_description", "")
        return sanitize(" ".join(message.split()) or "".join(notes)), ""
    if "rows" in attributes and not call["code"]:
        notes.append(plural(attributes["rows"], "row"))
    if attributes.get("wait_ns", 0) >= LONG_WAIT_NS:
        notes.append(f"waited {duration(attributes['wait_ns'])}")
    if attributes.get("dns_ns", 0) >= LONG_WAIT_NS:
        notes.append(f"dns {duration(attributes['dns_ns'])}")
    if "first_byte_ns" in attributes:
        notes.append(f"first byte {duration(attributes['first_byte_ns'])}")
    if "bytes_in" not in attributes:
        return ", ".join(notes), ""
    return ", ".join(notes), f"  ↑{size(attributes['bytes_out'])} ↓{size(attributes['bytes_in'])}"


def _transfer(document: Document) -> str:
    return f"↑{size(document['bytes_in'])} ↓{size(document['bytes_out'])}"


MAX_LINES = 5_000
"""Maximum number of formatted records."""
MAX_SEARCHED = 64 << 10
"""Maximum characters of stderr that are searched for the details of failures, which are not repeated then."""


def lines(documents: Sequence[Document], width: int) -> list[Line]:
    """Return the request for a screen of `width` cells."""
    tree = spans(documents)
    text: list[Line] = []
    if tree:
        root = tree[0].document
        text.append([(f"{root['method']} ", "bold"), (sanitize(root["target"]), "")])
        text.append([(f"{clock(began(root))}   trace {root['trace_id']}", "dim")])
        text.append([])
        text += waterfall(tree, width)
        stderr = "\n".join(each["body"] for each in documents if each["kind"] == "stderr")[-MAX_SEARCHED:]
        text += [
            [(name, "teal"), (f"  {span.document['code']}", "bad"), (f"  {sanitize(detail)}", "")]
            for span in tree
            if not span.is_call and span.document["code"]
            for name in [span.document["resource"] or "–"]
            for detail in ["" if span.document["detail"].strip() in stderr else span.document["detail"]]
        ]
        text.append([])
    records = [document for document in documents if document["kind"] != "request"]
    if not records:
        text.append([("no other records", "dim")])
    start = began(tree[0].document) if tree else (began(records[0]) if records else 0)
    for document in records[:MAX_LINES]:
        text += _log_cells(document, start)
    if len(records) > MAX_LINES:
        text.append([(f"… {len(records) - MAX_LINES:,} more; run `svc logs --request` to see them", "dim")])
    return text


def record_details(document: Document) -> list[Line]:
    """Return one complete record; JSON is formatted."""
    request = document["kind"] == "request"
    text: list[Line] = [
        [
            method(document["method"]) if request else badge(document),
            ("  ", ""),
            (f"{day(began(document))} {clock(began(document))}", "dim"),
            ("  ", ""),
            (document["resource"], "teal"),
            *((f" → {span['resource']}", "teal") for span in reversed(document.get("spans", ()))),
            (f"  on {document['node']}" if document.get("node") else "", "dim"),
        ]
    ]
    if request:
        return [*text, *_request_details(document)]
    text += [[(sanitize(text), "")] for text in pretty_json(document.get("body", "")).splitlines() or [""]]
    attributes = document.get("attributes", {})
    width = max((cell_len(sanitize(key)) for key in attributes), default=0)
    for key, value in attributes.items():
        text.append([(set_cell_size(sanitize(key), width), "dim"), (f"  {sanitize(value)}", "")])
    if grant := document.get("grant"):
        text.append([("A", "accent"), (" allows it:  ", "dim"), (sanitize(grant["line"]), "")])
    if document["request_id"]:
        text.append([(f"request {document['request_id']}", "dim")])
    return text


def _request_details(document: Document) -> Iterator[Line]:
    """Yield request, usage and error; usage is that of the innermost span."""
    inner = (*document.get("spans", ()), document)[0]
    yield [
        status(document["status"]),
        (f"  {document['method']} ", "bold"),
        (sanitize(document["target"]), ""),
    ]
    usage = [duration(document["wall_ns"])]
    usage += [f"{duration(inner['compute_ns'])} cpu"] if inner["compute_ns"] else []
    usage += [size(inner["peak_memory"])] if inner["peak_memory"] else []
    yield [("   ".join([*usage, _transfer(document)]), "")]
    if inner["code"]:
        yield [(inner["code"], "bad"), (f"  {sanitize(inner['detail'])}", "")]
    yield [(f"request {document['request_id']}", "dim")]


def _log_cells(document: Document, start: int) -> Iterator[Line]:
    offset = f"+{duration(max(began(document) - start, 0))}"
    head: list[tuple[str, Any]] = [
        (f"{offset:>9}  ", "dim"),
        badge(document),
        (f"  {document['resource']:<12}  ", "teal"),
    ]
    text = document["body"].rstrip("\n")
    attributes = document.get("attributes", {})
    for number, line in enumerate(text.splitlines() or [""]):
        tone: Tone = "dim" if "/node_modules/" in line else ""
        yield [*(head if number == 0 else [(" " * 33, "")]), (sanitize(line), tone)]
    for key, value in attributes.items():
        yield [(" " * 33, ""), (f"{sanitize(key)}=", "dim"), (sanitize(value), "dim")]


def pretty_json(text: str) -> str:
    """Return formatted JSON; other text is unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return dump_verbatim(load_verbatim(text), indent=2)
    except (ValueError, RecursionError):
        return text
