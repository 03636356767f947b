"""Rows and descriptions of jobs, schedules and stored files. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from screens.logs.trace import pretty_json
from screens.widgets.rows import Cell, Line, ListColumn, Tone, sanitize
from svc_tui.deploy.format import local_time
from svc_tui.terminal.units import size

Document = Mapping[str, Any]
"""A job, a schedule or a file, as the control API describes it."""
JOB_COLUMNS = (
    ListColumn("state", 7), ListColumn("job", 16, comfortable=48), ListColumn("try", 4, right=True),
    ListColumn("when", 10), ListColumn("last error", 12, comfortable=24, grow=True),
)  # fmt: skip
SCHEDULE_COLUMNS = (
    ListColumn("schedule", 14, comfortable=36), ListColumn("times", 10, comfortable=30),
    ListColumn("next", 10), ListColumn("last result", 17, comfortable=26, grow=True),
)  # fmt: skip
FILE_COLUMNS = (
    ListColumn("file", 24, grow=True), ListColumn("size", 8, right=True),
    ListColumn("type", 10, comfortable=24), ListColumn("modified", 10),
)  # fmt: skip
MAX_TEXT_LINES = 500
"""Maximum number of lines of a text that is shown."""
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))
_STATES: Mapping[str, Tone] = {
    "waiting": "accent", "running": "good", "dead": "bad",
    "succeeded": "good", "failed": "bad", "interrupted": "warn",
}  # fmt: skip


def key_of(document: Document) -> str:
    """Return what identifies a job, a schedule, a file or a prefix."""
    if "path" in document and "id" not in document:
        return f"{document['resource']}:{document['path']}"
    return str(document.get("id") or document.get("key") or document["prefix"])


def job_cells(now: datetime, job: Document) -> tuple[Cell, ...]:
    """Return the cells of a job."""
    when = "" if job["state"] == "running" else _relative(job["due"], now)
    return (
        ((job["state"], _STATES[job["state"]]),),
        ((f"{job['resource']}:{job['path']}", ""), (f"  {job['key'] or ''}", "dim")),
        ((f"{job['tries']}/{job['max_tries']}", ""),),
        ((when, "dim"),),
        ((job["error"], "bad"),),
    )


def job_lines(job: Document, now: datetime) -> Iterator[Line]:
    """Yield the description of a job and its body."""
    yield [(f"{job['resource']}:{job['path']}", "bold"), (f"  {job['id']}", "dim")]
    next_try = f", next {_relative(job['due'], now)}" if job["state"] == "waiting" else ""
    tries = f", try {job['tries']} of {job['max_tries']}{next_try}, added {local_time(job['added'])}"
    yield [(job["state"], _STATES[job["state"]]), (tries, "")]
    if job["key"] is not None:
        yield [("key  ", "dim"), (sanitize(job["key"]), "")]
    if job["error"]:
        yield [(sanitize(job["error"]), "bad")]
    yield []
    if not job["size"]:
        yield [("no body", "dim")]
    elif job["base64"] is not None:
        yield [(f"{size(job['size'])} of bytes, in base64", "dim")]
    yield from text_lines(pretty_json(job["body"]) if job["base64"] is None else job["base64"])


def schedule_cells(now: datetime, active: bool, schedule: Document) -> tuple[Cell, ...]:
    """Return the cells of a schedule; `active` is false if schedules run on request only."""
    last, following = schedule["last"], schedule["next"]
    if schedule["running"]:
        state: Cell = (("running", "good"),)
    elif schedule["paused"]:
        state = (("paused", "warn"),)
    else:
        state = ((_relative(following, now), "") if active and following else ("on request", "dim"),)
    result: Cell = (("not run yet", "dim"),)
    if last is not None:
        status = f" {last['status']}" if last["status"] is not None else ""
        name = "ok" if last["state"] == "succeeded" else last["state"]
        ago = f", {_relative(last['started'], now)}"
        result = ((f"{name}{status}", _STATES[last["state"]]), (ago, "dim"))
    zone = "" if schedule["timezone"] == "UTC" else f" {schedule['timezone']}"
    return ((key_of(schedule), ""),), ((schedule["at"], ""), (zone, "dim")), state, result


def file_cells(now: datetime, prefix: str, file: Document) -> tuple[Cell, ...]:
    """Return the cells of a file, or of a deeper prefix."""
    if "prefix" in file:
        return (((file["prefix"].removeprefix(prefix), "accent"),), (), (), ())
    return (
        ((file["key"].removeprefix(prefix), ""),),
        ((size(file["size"]), ""),),
        ((file["fields"].get("content-type", "").partition(";")[0], "dim"),),
        ((_relative(file["modified"], now), "dim"),),
    )


def file_lines(file: Document, beginning: bytes, note: str = "", *, shown: bool = False) -> Iterator[Line]:
    """Yield the description of a file, and its text if it is one. `beginning` has its first bytes.

    If it is an image that is shown, `note` has its size in pixels, else the reason.
    """
    kind = file["fields"].get("content-type", "no content type")
    yield [(sanitize(file["key"]), "bold")]
    pixels = f"{note}, " if shown else ""
    yield [(f"{size(file['size'])}, {pixels}{sanitize(kind)}, {local_time(file['modified'])}", "")]
    others = {name: value for name, value in file["fields"].items() if name != "content-type"}
    for name, value in (others | file["metadata"]).items():
        yield [(f"{sanitize(name)}  ", "dim"), (sanitize(value), "")]
    yield []
    if shown:
        return
    try:
        # The beginning may end within a character.
        text = beginning.decode() if file["size"] <= len(beginning) else beginning.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        yield [(note or "binary: a terminal cannot show it; x downloads it", "dim")]
    else:
        yield from text_lines(text, complete=file["size"] <= len(beginning))


def text_lines(text: str, *, complete: bool = True) -> Iterator[Line]:
    """Yield the first lines of a text; `complete` is false if the text itself was cut."""
    lines = text.splitlines()
    for line in lines[:MAX_TEXT_LINES]:
        yield [(sanitize(line.expandtabs(4)), "")]
    if len(lines) > MAX_TEXT_LINES or not complete:
        yield [("…", "dim")]


def _relative(time: str, now: datetime) -> str:
    """Return how long it is until a time, or since then."""
    seconds = round((datetime.fromisoformat(time) - now).total_seconds())
    unit, name = next((pair for pair in _UNITS if abs(seconds) >= 2 * pair[0]), (1, "s"))
    count = f"{abs(seconds) // unit} {name}"
    return f"in {count}" if seconds > 0 else f"{count} ago"
