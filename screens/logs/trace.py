"""Text of one request: its spans as a tree with a time axis, and its records. Does not import Textual."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from engine.stepwise_json import dump_verbatim, load_verbatim
from screens.logs.format import badge, began, day, method, size, status
from screens.logs.waterfall import spans, waterfall
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Line, Tone
from svc_tui.terminal.units import clock, duration

Document = Mapping[str, Any]
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
    transfer = f"↑{size(document['bytes_in'])} ↓{size(document['bytes_out'])}"
    yield [("   ".join([*usage, transfer]), "")]
    if inner["code"]:
        yield [(inner["code"], "bad"), (f"  {sanitize(inner['detail'])}", "")]
    yield [(f"request {document['request_id']}", "dim")]


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
