"""What is said of what is selected: a line at the foot, and all of it in the sheet. Imports no Textual."""

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from screens.board.cards import TONES, Line, milliseconds, percent, rate, size
from screens.board.edits import Shown
from screens.board.project import Door, Health, Mount, Rates, Resource, Stage
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Piece, Tone

_KEY = 11
"""Cells of the names of what is said."""
_STAGES: dict[Stage, str] = {
    "waiting": "waits for its build",
    "building": "is being built",
    "ready": "ready",
    "failed": "build failed",
}


def resource_foot(resource: Resource, health: Health) -> Line:
    """Return the line of a Resource: where it is, and how."""
    place: Piece = (health.address or "", "")
    if not resource.public:
        place = ("private, reached by its mounts", "dim")
    how: Piece = (_stage(health), TONES[health.stage] if health.stage != "ready" else "dim")
    return (resource.name, "bold"), ("  ", ""), place, ("  ", ""), how


def _stage(health: Health) -> str:
    text = _STAGES[health.stage]
    return f"{text}: {sanitize(health.failure)}" if health.stage == "failed" else text


def mount_foot(edge: Shown, per_second: float | None) -> Line:
    """Return the line of a mount: from where to where, and how many requests take it."""
    mount = edge.mount
    said: Piece = (f"{edge.mark}, not written yet", "accent") if edge.mark else (rate(per_second or 0.0), "")
    return (
        (mount.source, "bold"),
        (f"{mount.pattern}", "accent"),
        (" → ", "dim"),
        (mount.target, "bold"),
        ("   ", ""),
        said,
    )


def of_resource(
    resource: Resource, health: Health, mounts: Iterable[Mount], addresses: Sequence[str], room: int
) -> list[Line]:
    """Return all that is known of a Resource; `addresses` are those at which it is mounted."""
    return _table(
        room,
        ("state", [((_stage_line(health), TONES[health.stage]),)]),
        ("", [((line, "bad"),) for line in health.failure.splitlines()]),
        ("", [((line, ""),) for line in health.said.splitlines()]),
        ("", [((line, ""),) for line in health.hint.splitlines()]),
        ("address", [((health.address or "private: 404 from outside", "" if health.address else "dim"),)]),
        ("mounted at", [((address, ""),) for address in addresses]),
        ("mounts", [((each.pattern, "accent"), (f" → {each.target}", "")) for each in mounts]),
        ("last minute", [_rates(health.rates)]),
        ("limits", [((f"{resource.run_limit_secs} s a run, {resource.memory_limit_mb} MB of memory", ""),)]),
        ("egress", [((origin, ""),) for origin in resource.egress] or [(("none", "dim"),)]),
        ("env", [((", ".join(resource.env), ""),)] if resource.env else []),
        ("secrets", [((", ".join(resource.secrets), ""),)] if resource.secrets else []),
    )


def _stage_line(health: Health) -> str:
    if health.stage == "failed":
        return "build failed; the version before it serves" if health.serves else "build failed; none serves"
    if health.stage == "ready" and health.seconds is not None:
        return f"ready, built in {milliseconds(health.seconds * 1000)}"
    return _STAGES[health.stage]


def _rates(rates: Rates) -> Line:
    if rates.p95_ms is None:
        return (("no requests", "dim"),)
    said: list[Piece] = [(f"{rate(rates.per_second)}, 95 of 100 below {milliseconds(rates.p95_ms)}", "")]
    if rates.peak_memory is not None:
        said.append((f", peak memory {size(rates.peak_memory)}", ""))
    if rates.errors:
        said.append((f", {percent(rates.errors)} failed", "bad"))
    return tuple(said)


def door_foot(name: str, door: Door) -> Line:
    """Return the line of a Door: what it is for."""
    what = "rows for every Resource" if door.tables is not None else "records from every Resource"
    where = "SVC_TABLES_ENDPOINT" if door.tables is not None else "SVC_TELEMETRY_ENDPOINT"
    return (name, "bold"), ("  ", ""), (f"a Door: {what}, at {where}", "dim")


def use_foot(resource: str, door: str, asked: int) -> Line:
    """Return the line of a Resource's use of a Door."""
    times = "once" if asked == 1 else f"{asked:,} times"
    return (
        (resource, "bold"),
        (" → ", "dim"),
        (door, "bold"),
        ("   ", ""),
        (f"asked {times} since the start", ""),
    )


def of_mount(edge: Shown, per_second: float | None, room: int) -> list[Line]:
    """Return all that is known of a mount."""
    mount = edge.mount
    exact = not mount.pattern.endswith("/*")
    prefix = mount.pattern if exact else mount.pattern[:-2]
    which = f"the path {mount.pattern} only" if exact else f"{prefix or '/'} and all below it"
    return _table(
        room,
        ("requests", [((f"to {mount.source}, for {which}", ""),)]),
        ("answered by", [((mount.target, "bold"),)]),
        ("last minute", [((rate(per_second or 0.0), ""),)]),
    )


def difference(diff: str) -> list[Line]:
    """Return a unified diff without what only names the file."""
    tones: dict[str, Tone] = {"+": "good", "-": "bad", "@": "accent"}
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    return [((sanitize(line), tones.get(line[:1], "dim")),) for line in lines]


def problem(message: str, hint: str) -> list[Line]:
    """Return what is wrong, and what to do next."""
    wrong: list[Line] = [((sanitize(line), "bad"),) for line in message.splitlines()]
    return wrong + [((sanitize(line), "dim"),) for line in hint.splitlines()]


def _table(room: int, *rows: tuple[str, Sequence[Line]]) -> list[Line]:
    """Put names before what is said of them; what is longer than `room` goes on below."""
    lines: list[Line] = []
    for key, values in rows:
        parts = [part for value in values for part in folded(value, room - _KEY - 2)]
        lines += [((f"{key if at == 0 else '':<{_KEY}}  ", "dim"), *part) for at, part in enumerate(parts)]
    return lines


def folded(line: Line, room: int) -> list[Line]:
    """Break a line at its blanks, and words that are longer than `room` where they have to be."""
    lines: list[list[Piece]] = [[]]
    free = room = max(room, 2)
    for text, tone in line:
        for word in re.findall(r"\S+|\s+", sanitize(text)):
            for part in chop_cells(word, room) if cell_len(word) > free else (word,):
                if cell_len(part) > free:
                    lines.append([])
                    free = room
                    if part.isspace():
                        continue
                lines[-1].append((part, tone))
                free -= cell_len(part)
    return [tuple(each) for each in lines]
