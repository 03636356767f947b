"""Details of the selected item: a summary line and the complete text. Does not import Textual."""

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from screens.board.cards import (
    TONES,
    Line,
    format_frequency,
    format_percent,
    format_rate,
    health_tone,
)
from screens.board.edits import DrawnMount
from screens.board.project import (
    BoardDoor,
    BoardMount,
    BoardResource,
    Health,
    ProjectStatus,
    Rates,
    Stage,
)
from screens.widgets.columns import sanitize
from screens.widgets.row_source import Piece, Tone
from svc_tui.terminal.units import duration, size

_KEY = 11
"""Width of the labels in cells."""
MIN_HINT_GAP = 3
"""Minimum blank cells before a hint."""
_PURPOSES = {True: "SQL tables for every resource", False: "logs and traces of every resource"}
_STAGES: dict[Stage, str] = {
    "waiting": "waiting for its build",
    "building": "building",
    "ready": "ready",
    "failed": "build failed",
}


_QUOTAS = {
    "instances": "{} requests at once",
    "memory_mb": "{} MiB of memory for them",
    "requests": "{} requests a second",
    "storage_mb": "{} MiB of tables",
    "egress": "{} calls to other servers a second",
}


def resource_summary(resource: BoardResource, health: Health) -> Line:
    """Return the summary of a resource: its address and state."""
    address: Piece = (health.address or "", "")
    if not resource.public:
        address = ("private, reached through its mounts", "dim")
    stage: Piece = (_stage(health), TONES[health.stage] if health.stage != "ready" else "dim")
    return (resource.name, "bold"), ("  ", ""), address, ("  ", ""), stage


def _stage(health: Health) -> str:
    text = _STAGES[health.stage]
    return f"{text}: {sanitize(health.failure)}" if health.stage == "failed" else text


def service_limits(status: ProjectStatus) -> list[str]:
    """Return the use of the service's memory and the quota of the project, as lines."""
    lines = []
    if status.memory is not None:
        used, budget = status.memory
        lines.append(f"{size(used)} of {size(budget)} of memory used")
    texts = (text.format(status.quota[name]) for name, text in _QUOTAS.items() if name in status.quota)
    if quota := ", ".join(texts):
        lines.append(f"quota of the project: {quota}")
    return lines


def mount_summary(edge: DrawnMount, per_second: float | None) -> Line:
    """Return the summary of a mount: source, pattern, target and request rate."""
    mount = edge.mount
    state: Piece = (
        (f"{edge.mark}, not saved yet", "accent") if edge.mark else (format_rate(per_second or 0.0), "")
    )
    return (
        (mount.source, "bold"),
        (f"{mount.pattern}", "accent"),
        (" → ", "dim"),
        (mount.target, "bold"),
        ("   ", ""),
        state,
    )


def resource_details(
    resource: BoardResource,
    health: Health,
    mounts: Iterable[BoardMount],
    addresses: Sequence[str],
    service: Sequence[str],
    room: int,
) -> list[Line]:
    """Return the details of a resource; `addresses` are the routes at which it is mounted.

    `service` has the lines of `service_limits`.
    """
    return _table(
        room,
        ("state", [((_stage_line(health), health_tone(health)),)]),
        ("", [((line, "bad"),) for line in health.failure.splitlines()]),
        ("", [((line, ""),) for line in health.output.splitlines()]),
        ("", [(("e opens the first error in your editor", "dim"),)] if health.source else []),
        ("", [((line, ""),) for line in health.hint.splitlines()]),
        ("address", [((health.address or "private: 404 from outside", "" if health.address else "dim"),)]),
        ("mounted at", [((address, ""),) for address in addresses]),
        ("mounts", [((mount.pattern, "accent"), (f" → {mount.target}", "")) for mount in mounts]),
        ("last minute", [_rates(health.rates)]),
        (
            "limits",
            [((f"{resource.run_limit_secs} s per request, {resource.memory_limit_mb} MiB of memory", ""),)],
        ),
        ("service", [((line, ""),) for line in service]),
        ("egress", [((origin, ""),) for origin in resource.egress] or [(("none", "dim"),)]),
        ("env", [((", ".join(resource.env), ""),)] if resource.env else []),
        ("secrets", [((", ".join(resource.secrets), ""),)] if resource.secrets else []),
    )


def _stage_line(health: Health) -> str:
    if health.stage == "failed":
        return (
            "build failed; the previous version is serving"
            if health.serves
            else "build failed; no version is serving"
        )
    if health.stage == "ready" and health.seconds is not None:
        return f"ready, built in {duration(int(health.seconds * 1e9))}"
    return _STAGES[health.stage]


def _rates(rates: Rates) -> Line:
    if rates.p95_ms is None:
        return (("no requests", "dim"),)
    pieces: list[Piece] = [(f"{format_rate(rates.per_second)}, p95 {duration(int(rates.p95_ms * 1e6))}", "")]
    if rates.peak_memory is not None:
        pieces.append((f", peak memory {size(rates.peak_memory)}", ""))
    if rates.errors:
        pieces.append((f", {format_percent(rates.errors)} failed", "bad"))
    return tuple(pieces)


def door_summary(name: str, door: BoardDoor) -> Line:
    """Return the summary of a Door."""
    purpose = _PURPOSES[door.tables is not None]
    return (name, "bold"), ("  ", ""), (f"Door, an API for your code: {purpose}", "dim")


def door_details(name: str, door: BoardDoor, room: int) -> list[Line]:
    """Return the details of a Door: what it is for, its size and its users."""
    is_store = door.tables is not None
    variable = "SVC_TABLES_ENDPOINT" if is_store else "SVC_TELEMETRY_ENDPOINT"
    calls = sorted(door.users.items(), key=lambda user: -user[1])
    width = max((len(user) for user, _ in calls), default=0)
    contents: list[Line] = []
    if is_store:
        contents = [((f"{door.tables:,}, {size(door.size or 0)}", ""),)]
    return _table(
        room,
        ("Door", [((_PURPOSES[is_store], ""),)]),
        ("address", [((f"in the variable {variable}", ""),)]),
        ("tables", contents),
        ("records", [((format_frequency(door.records, ""), ""),)] if door.records is not None else []),
        (
            "called by",
            [((f"{user:<{width}}  ", ""), (f"{count:,}", "teal")) for user, count in calls]
            or [(("no resource since the start", "dim"),)],
        ),
        ("", [(("enter opens Tables" if is_store else "enter opens Logs", "dim"),)]),
    )


def use_summary(resource: str, door: str, calls: int) -> Line:
    """Return the summary of a resource's use of a Door."""
    times = "once" if calls == 1 else f"{calls:,} times"
    return (
        (resource, "bold"),
        (" → ", "dim"),
        (door, "bold"),
        ("   ", ""),
        (f"called {times} since the start", ""),
    )


def mount_details(edge: DrawnMount, per_second: float | None, room: int) -> list[Line]:
    """Return the details of a mount."""
    mount = edge.mount
    exact = not mount.pattern.endswith("/*")
    prefix = mount.pattern if exact else mount.pattern[:-2]
    paths = f"the path {mount.pattern}" if exact else f"{prefix or '/'} and all paths below it"
    return _table(
        room,
        ("requests", [((f"to {mount.source}, for {paths}", ""),)]),
        ("answered by", [((mount.target, "bold"),)]),
        ("last minute", [((format_rate(per_second or 0.0), ""),)]),
    )


def diff_lines(diff: str) -> list[Line]:
    """Return the lines of a unified diff without its file header."""
    tones: dict[str, Tone] = {"+": "good", "-": "bad", "@": "accent"}
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    return [((sanitize(line), tones.get(line[:1], "dim")),) for line in lines]


def error_lines(message: str, hint: str) -> list[Line]:
    """Return the lines of an error and its hint."""
    lines: list[Line] = [((sanitize(line), "bad"),) for line in message.splitlines()]
    return lines + [((sanitize(line), "dim"),) for line in hint.splitlines()]


def with_hint(line: Line, hint: str, width: int) -> Line:
    """Return a line of a width with a hint at its right; without the hint if there is no room for both."""
    gap = width - sum(cell_len(text) for text, _ in line) - cell_len(hint)
    return (*line, (" " * gap, ""), (hint, "dim")) if gap >= MIN_HINT_GAP else line


def _table(room: int, *rows: tuple[str, Sequence[Line]]) -> list[Line]:
    """Return labeled lines; values longer than `room` are wrapped."""
    lines: list[Line] = []
    for key, values in rows:
        parts = [part for value in values for part in fold_line(value, room - _KEY - 2)]
        lines += [((f"{key if at == 0 else '':<{_KEY}}  ", "dim"), *part) for at, part in enumerate(parts)]
    return lines


def fold_line(line: Line, room: int) -> list[Line]:
    """Wrap a line at blanks; words longer than `room` are split."""
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
    return [tuple(pieces) for pieces in lines]
