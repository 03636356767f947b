"""Request log of `svc dev`: one line per request, with the guest's own lines below it.

A request that runs longer than a moment (a stream) prints its guest's lines as they arrive, and its own line
at its end.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.timeline.record import INTERRUPTED, Document, Record, document, encode, parse_utc
from svc_tui.terminal import stdout
from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.units import clock, duration, size

TARGET_WIDTH = 24
SHORT_ID, WIDE_CELLS = 12, 150
"""Characters of an id on a terminal with fewer cells than these. A disconnect is shown as its code there."""
LIVE_AFTER_NS = 400_000_000
MAX_ENDED = 64
"""Number of ended requests remembered: records of a Door can arrive after the end of their request."""
_STATUS = {2: "bold green", 3: "bold cyan", 4: "bold yellow", 5: "bold red"}
_BADGE = {
    "stdout": "blue",
    "stderr": "magenta",
    "TRACE": "dim",
    "DEBUG": "cyan",
    "INFO": "green",
    "WARN": "yellow",
    "ERROR": "red",
    "FATAL": "bold red",
}


@dataclass(slots=True)
class _OpenRequest:
    """A request in progress: its lines, and the spans of the resources on its way."""

    lines: list[Document] = field(default_factory=list)
    spans: list[Document] = field(default_factory=list)
    live: bool = False


class RequestLog:
    """Formats timeline records as lines; `write` receives each line.

    With `failures_only`, requests with a status below 500 are left out.
    """

    def __init__(self, write: Callable[[Styled], None], *, failures_only: bool = False) -> None:
        self._write = write
        self._failures_only = failures_only
        self._open: dict[str, _OpenRequest] = {}
        self._ended: deque[str] = deque(maxlen=MAX_ENDED)

    def __call__(self, record: Record) -> None:
        shown = document(0, encode(record), calls=False)
        if shown["kind"] == "request":
            self._span(shown)
            return
        running = record.request_id and record.request_id not in self._ended
        entry = self._open.setdefault(record.request_id, _OpenRequest()) if running else None
        if entry is None or entry.live:
            self._write(record_line(shown, clock(record.time_ns), record.request_id))
        else:
            entry.lines.append(shown)

    def tick(self, now_ns: int) -> None:
        """Print the buffered lines of requests that are still running."""
        for request_id, entry in self._open.items():
            if entry.lines and (entry.live or ended_ns(entry.lines[0]) < now_ns - LIVE_AFTER_NS):
                entry.live = True
                for line in entry.lines:
                    self._write(record_line(line, clock(ended_ns(line)), request_id))
                entry.lines.clear()

    def _span(self, span: Document) -> None:
        entry = self._open.setdefault(span["request_id"], _OpenRequest())
        entry.spans.append(span)
        if not span["root"]:
            return
        del self._open[span["request_id"]]
        self._ended.append(span["request_id"])
        if self._failures_only and span["status"] < 500:
            return
        stderr = "".join(map(stderr_text, entry.lines))
        self._write(request_line(entry.spans, clock(ended_ns(span)), stderr))
        for line in entry.lines:
            self._write(record_line(line, "", ""))


def ended_ns(document: Document) -> int:
    """Return the Unix time of a record, of a request that of its end."""
    return parse_utc(document["time"]) + int(document.get("wall_ns", 0))


def stderr_text(document: Document) -> str:
    """Return the text of a record that is a line of stderr, with its newline; "" for other records."""
    return f"{document['body']}\n" if document["kind"] == "stderr" else ""


def request_line(spans: Sequence[Document], time: str, stderr: str = "") -> Styled:
    """Return the line of a request; `spans` has the innermost one first.

    The message of an error is left out if `stderr`, whose lines are shown too, contains it.
    """
    front, inner = spans[-1], spans[0]
    code = f" {inner['code']}" if inner["code"] and inner["code"] not in INTERRUPTED else ""
    line: Styled = [
        (time, "dim"),
        (f" {front['method']:<6} ", "bold"),
        (f"{front['target']:<{TARGET_WIDTH - len(code)}}", ""),
        (f"  {front['status']}", _STATUS.get(front["status"] // 100, "bold")),
        (code, "red"),
        (f"  {duration(front['wall_ns']):>6}", ""),
    ]
    compute = f"cpu {duration(inner['compute_ns']):>6}" if inner["compute_ns"] else ""
    peak = size(inner["peak_memory"]) if inner["peak_memory"] is not None else ""
    meters = f"  {compute:<10}  {peak:>8}"
    wide = stdout.width() >= WIDE_CELLS
    shown = front["request_id"] if wide else front["request_id"][:SHORT_ID]
    path = " → ".join(span["resource"] or "–" for span in reversed(spans))
    line += [(meters, "dim"), (f"  {path}", "cyan"), (f"  {shown}", "dim")]
    if inner["code"] in INTERRUPTED:
        line.append((f"  {inner['detail' if wide else 'code']}", "dim"))
    elif inner["detail"] and inner["detail"].strip() not in stderr:
        line.append((f"\n    {_indented(inner['detail'])}", "red"))
    return line


def record_line(document: Document, time: str, request_id: str) -> Styled:
    """Return the line of a record with a text. An empty `time` indents it below the line of its request."""
    name, body = document["kind"], document["body"]
    if name in ("structured", "platform"):
        name = document["level"]
    line: Styled = [(f"{time} " if time else "    │ ", "dim"), (f"{name.upper():<6} ", _BADGE[name])]
    if time and document["resource"]:
        line.append((f"{document['resource']}  ", "cyan"))
    # Further lines are indented, so that they cannot pass for log lines.
    if document["kind"] == "structured":
        attributes = "".join(f" {key}={_value(value)}" for key, value in document["attributes"].items())
        line += [(_indented(body), ""), (_indented(attributes), "dim")]
    else:
        line.append((_indented(body), "dim" if "/node_modules/" in body else ""))
    if request_id:
        line.append((f"  {request_id}", "dim"))
    return line


def _indented(text: str) -> str:
    return text.rstrip("\n").replace("\n", "\n    │ ") if "\n" in text else text


def _value(text: str) -> str:
    """Return the value of an attribute, quoted if it is ambiguous."""
    return text if text and not any(c in text for c in ' \t\n"=') else json.dumps(text, ensure_ascii=False)
