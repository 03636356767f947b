"""Text of one request: its spans as a tree with a time axis, and its records. Does not import Textual."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from screens.logs.format import badge, began, clock, day, duration, method, size, status
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line

Document = Mapping[str, Any]
MAX_LINES = 5_000
"""Maximum number of formatted records."""
_NAME, _BAR = 20, 10
"""Width of a span's name, and minimum width of its bar."""
_HEAD, _TOOK, _BYTES = _NAME + 14, 23, 25
"""Width before the bar, and after it for CPU time with memory, and for bytes."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span and its depth below the root."""

    document: Document
    depth: int


def spans(documents: Sequence[Document]) -> list[Span]:
    """Return the spans of a request in tree order. A span without a known parent is a root."""
    requests = [document for document in documents if document["kind"] == "request"]
    span_ids = {document["span_id"] for document in requests}
    children: dict[str, list[Document]] = {}
    for document in requests:
        children.setdefault(document["parent"] if document["parent"] in span_ids else "", []).append(document)
    tree: list[Span] = []

    def add(parent: str, depth: int) -> None:
        for document in sorted(children.get(parent, ()), key=began):
            tree.append(Span(document, depth))
            add(document["span_id"], depth + 1)

    add("", 0)
    return tree


def lines(documents: Sequence[Document], width: int) -> list[Line]:
    """Return the request for a screen of `width` cells."""
    tree = spans(documents)
    text: list[Line] = []
    if tree:
        root = tree[0].document
        text.append([(f"{root['method']} ", "bold"), (sanitize(root["target"]), "")])
        text.append([(f"{clock(began(root))}   trace {root['trace_id']}", "dim")])
        text.append([])
        text += _bars(tree, width)
        stderr = "\n".join(each["body"] for each in documents if each["kind"] == "stderr")
        text += [
            [(name, "teal"), (f"  {span.document['code']}", "bad"), (f"  {sanitize(detail)}", "")]
            for span in tree
            if span.document["code"]
            for name in [span.document["resource"] or "–"]
            for detail in ["" if span.document["detail"].strip() in stderr else span.document["detail"]]
        ]
        text.append([])
    records = [document for document in documents if document["kind"] != "request"]
    if not records:
        text.append([("no other records", "dim")])
    start = began(tree[0].document) if tree else (began(records[0]) if records else 0)
    for document in records[:MAX_LINES]:
        text += _log_cells(document, start, width)
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
        ]
    ]
    if request:
        return [*text, *_request_details(document)]
    text += [[(sanitize(text), "")] for text in pretty_json(document.get("body", "")).splitlines() or [""]]
    attributes = document.get("attributes", {})
    name = max((len(key) for key in attributes), default=0)
    for key, value in attributes.items():
        text.append([(f"{sanitize(key):<{name}}  ", "dim"), (sanitize(value), "")])
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
    transfer = f"↑{size(document['bytes_in'])} ↓{size(document['bytes_out'])}"
    yield [("   ".join([*usage, transfer]), "")]
    if inner["code"]:
        yield [(inner["code"], "bad"), (f"  {sanitize(inner['detail'])}", "")]
    yield [(f"request {document['request_id']}", "dim")]


def _bars(tree: Sequence[Span], width: int) -> Iterator[Line]:
    first = min(began(span.document) for span in tree)
    last = max(began(span.document) + span.document["wall_ns"] for span in tree)
    # Show bytes, memory and CPU time beside the bar as far as they fit.
    usage_cells = next((cells for cells in (_TOOK + _BYTES, _TOOK) if _HEAD + _BAR + cells <= width), 0)
    room = max(width - _HEAD - usage_cells, _BAR)
    scale = room / max(last - first, 1)
    for span in tree:
        document = span.document
        start = min(int((began(document) - first) * scale), room - 1)
        length = min(max(round(document["wall_ns"] * scale), 1), room - start)
        branch = "" if not span.depth else "  " * (span.depth - 1) + "└ "
        name = f"{branch}{document['resource'] or '–'}"[:_NAME]
        compute = f"{duration(document['compute_ns'])} cpu" if document["compute_ns"] else ""
        usage = f"  {compute:>11}  {size(document['peak_memory']):>8}"
        transfer = f"  ↑{size(document['bytes_in'])} ↓{size(document['bytes_out'])}"
        yield [
            (f"{name:<{_NAME}}", "teal"),
            status(document["status"]),
            (f" {duration(document['wall_ns']):>8}  ", ""),
            (
                " " * start + "━" * length + " " * (room - start - length),
                "bad" if document["code"] else "notice",
            ),
            (usage + transfer if usage_cells > _TOOK else usage[:usage_cells], "dim"),
        ]


def _log_cells(document: Document, start: int, width: int) -> Iterator[Line]:
    offset = f"+{duration(max(began(document) - start, 0))}"
    head: list[tuple[str, Any]] = [
        (f"{offset:>9}  ", "dim"),
        badge(document),
        (f"  {document['resource']:<12}  ", "teal"),
    ]
    text = document["body"].rstrip("\n")
    attributes = document.get("attributes", {})
    for number, line in enumerate(text.splitlines() or [""]):
        yield [*(head if number == 0 else [(" " * 33, "")]), (sanitize(line), "")]
    for key, value in attributes.items():
        yield [(" " * 33, ""), (f"{sanitize(key)}=", "dim"), (sanitize(value), "dim")]


def pretty_json(text: str) -> str:
    """Return formatted JSON; other text is unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
