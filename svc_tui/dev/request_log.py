"""Lines of `svc dev` and `svc logs`: one per request, with all its spans, and those of its code.

`svc dev` prints the lines of the code below their request. A request that runs longer than a moment (a
stream) prints them as they arrive, as `svc logs` does, and its own line at its end.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from engine.timeline.record import INTERRUPTED, Document, Record, document, encode, parse_utc
from svc_tui.terminal import stdout
from svc_tui.terminal.stdout import Styled
from svc_tui.terminal.units import clock, duration, size

TARGET_WIDTH = 24
SHORT_ID, WIDE_CELLS = 12, 150
"""Characters of an id on a terminal with fewer cells than these. A disconnect is shown as its code there."""
LIVE_AFTER_NS = 400_000_000
MAX_PENDING = 1000
"""Requests of a live log whose spans are held until their root span is read."""
MAX_STDERR = 16_384
"""Maximum characters of stderr that are remembered for a request."""
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
    """A request in progress: the lines that wait for its end, its spans, and the end of its stderr."""

    lines: list[Document] = field(default_factory=list)
    spans: list[Document] = field(default_factory=list)
    stderr: str = ""
    live: bool = False


class RequestLog:
    """Formats records as lines: a line for each request, at its end, and those of its code."""

    def __init__(
        self,
        write: Callable[[Styled], object],
        *,
        live: bool = False,
        failures_only: bool = False,
        dated: bool = False,
        day: date | None = None,
        has_root: Callable[[Document], bool] = lambda span: True,
    ) -> None:
        """`write` receives each line. With `live`, the lines of the code do not wait for the end.

        With `failures_only`, requests with a status below 500 are left out. `dated` writes the date into
        every line. With a `day`, each other one gets a heading. `has_root` returns whether the root span of
        a request follows, too. A span without it gets its own line.
        """
        self._write, self._live, self._failures_only = write, live, failures_only
        self._dated, self._day, self._has_root = dated, day, has_root
        self._open: dict[str, _OpenRequest] = {}
        self._ended = deque[str](maxlen=0 if live else MAX_ENDED)

    def __call__(self, record: Record) -> None:
        self.add(document(0, encode(record), calls=False))

    def add(self, shown: Document) -> None:
        """Write the lines for the next record; inner spans wait for the root span of their request."""
        id_ = shown["request_id"]
        is_request = shown["kind"] == "request"
        if not is_request and (not id_ or id_ in self._ended):
            self._write_line(shown)
            return
        entry = self._open.setdefault(id_, _OpenRequest(live=self._live))
        if is_request:
            entry.spans.append(shown)
            if shown["root"] or not self._has_root(shown):
                self._end(id_)
        else:
            # The error of a request is not repeated if its stderr has it.
            if shown["kind"] == "stderr":
                entry.stderr = f"{entry.stderr}{shown['body']}\n"[-MAX_STDERR:]
            if entry.live:
                self._write_line(shown)
            else:
                entry.lines.append(shown)
        if self._live and len(self._open) > MAX_PENDING:
            self._end(next(iter(self._open)))

    def tick(self, now_ns: int) -> None:
        """Print the buffered lines of requests that are still running."""
        for entry in self._open.values():
            if entry.lines and (entry.live or ended_ns(entry.lines[0]) < now_ns - LIVE_AFTER_NS):
                entry.live = True
                for line in entry.lines:
                    self._write_line(line)
                entry.lines.clear()

    def flush(self) -> None:
        """Write the lines of requests whose root span was not read."""
        for id_ in list(self._open):
            self._end(id_)

    def _end(self, id_: str) -> None:
        entry = self._open.pop(id_)
        self._ended.append(id_)
        if not entry.spans or (self._failures_only and entry.spans[-1]["status"] < 500):
            return
        self._write(request_line(entry.spans, self._time(entry.spans[-1]), entry.stderr))
        for line in entry.lines:
            self._write(record_line(line, "", ""))

    def _write_line(self, shown: Document) -> None:
        self._write(record_line(shown, self._time(shown), shown["request_id"]))

    def _time(self, shown: Document) -> str:
        """Return the time of a line, after a heading if its day differs from the previous line's."""
        time_ns = ended_ns(shown)
        if not self._dated and self._day is None:
            return clock(time_ns)
        day = datetime.fromtimestamp(time_ns // 1_000_000_000).date()
        if self._dated:
            return f"{day} {clock(time_ns)}"
        if day != self._day:
            self._day = day
            self._write([(f"{day:%A} {day}", "dim")])
        return clock(time_ns)


def ended_ns(document: Document) -> int:
    """Return the Unix time of a record, of a request that of its end."""
    return parse_utc(document["time"]) + int(document.get("wall_ns", 0))


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
