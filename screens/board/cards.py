"""Text of the Board: nodes, details of an item, the fleet, and numbers. Does not import Textual."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, get_args

from rich.cells import cell_len

from screens.board.project import BoardDoor, BoardMount, BoardResource, Health, ProjectStatus, Stage
from screens.widgets.rows import Piece, PlacedColumn, Tone, fit_cell, sanitize, wrap_lines
from svc_tui.client.fleet import ObservedFleet, ObservedNode, lag_text
from svc_tui.deploy.format import domain_state, local_time
from svc_tui.terminal.units import duration, plural, size

Line = tuple[Piece, ...]
Labeled = tuple[str, Sequence[Line | str]]
"""A label and its lines."""
CARD_LINES, TALL_CARD_LINES = 3, 4
"""Lines per resource card; a tall one shows the requests of the last minute."""
NARROW, NARROW_DOOR = 22, 18
"""Widths below which a resource card and a Door card are abbreviated."""
MIN_WIDTH = 16
"""Width below which a resource card has one value per line."""

SIGNS: dict[Stage, str] = {"waiting": "○", "building": "◌", "ready": "●", "failed": "▲"}
"""Signs of the states of a node, distinguishable without colors."""
_LEVELS = "▁▂▃▄▅▆▇█"
TONES: dict[Stage, Tone] = {"waiting": "dim", "building": "warn", "ready": "good", "failed": "bad"}
MANY_ERRORS = 0.1
"""The share of failed requests from which a resource counts as failing."""


def health_tone(health: Health) -> Tone:
    """Return the tone of a resource's state; a ready one warns of failed requests."""
    if health.state == "ready" and health.failures:
        return "bad" if health.failures >= MANY_ERRORS else "warn"
    return TONES[health.state]


def resource_card(
    resource: BoardResource, health: Health, width: int, lines: int = CARD_LINES
) -> tuple[Line, ...]:
    """Return the card of a resource: name and lane, visibility or domain and request rate, health.

    A narrow card has the name, the visibility, and the rate or the most important problem. A card of
    `TALL_CARD_LINES` lines ends with the requests of the last minute.
    """
    narrow = width < NARROW
    name: Line = ((f"{SIGNS[health.state]} ", health_tone(health)), (resource.name, "bold"))
    access: Piece = ("public", "") if resource.public else ("private", "dim")
    if resource.fallback and not narrow:
        access = (f"{access[0]} → {resource.fallback}"[: width - 12], access[1])
    if width < MIN_WIDTH:
        card = (_line(width, name), _line(width, (("  ", ""), access)), _line(width, _headline(health)))
    else:
        left: Line = (("  ", ""), access)
        others: Line = ()
        room = width - len(access[0]) - 3
        if health.domains:
            left, others = _domains(health.domains)
            room = width // 2
        rate: Piece = (_rate(health.requests, room), "" if health.requests else "dim")
        card = (
            _line(width, name, ((resource.lane, resource.tone),)),
            _line(width, left, (*others, rate)),
            _line(width, *_third(health, narrow=narrow)),
        )
    return card if lines < TALL_CARD_LINES else (*card, (("  ", ""), *sparkline(health.history, width - 2)))


def sparkline(history: Sequence[int], cells: int) -> Line:
    """Return bars of the last numbers of a history; several numbers may share a cell."""
    share = max(len(history) // cells, 1)
    ends = range(len(history), 0, -share)[:cells]
    sums = [sum(history[max(end - share, 0) : end]) for end in reversed(ends)]
    peak, highest = max(sums, default=0) or 1, len(_LEVELS) - 1
    bars: list[Piece] = [(_LEVELS[-(-n * highest // peak)], "teal" if n else "faint") for n in sums]
    return ((_LEVELS[0] * (cells - len(bars)), "faint"), *bars)


_DOMAIN_STAGES: dict[str, Stage] = {"valid": "ready", "waiting": "building", "failed": "failed"}
"""The stages of a resource whose signs and tones domains have."""


def lacking_domains(health: Health) -> list[str]:
    """Return the names of domains whose DNS does not lead to the service."""
    return [each["name"] for each in health.domains if each["state"] != "valid"]


def _domain(domain: Mapping[str, Any]) -> Line:
    stage = _DOMAIN_STAGES[domain_state(domain)[0]]
    return (f"{SIGNS[stage]} ", TONES[stage]), (sanitize(domain["name"]), "")


def _domains(domains: Sequence[Mapping[str, Any]]) -> tuple[Line, Line]:
    """Return the domain that needs attention most, else the first, and the number of the others."""
    order = ("failed", "waiting", "valid")
    shown = min(domains, key=lambda domain: order.index(domain_state(domain)[0]))
    others = f"+{len(domains) - 1} " if len(domains) > 1 else ""
    return (("  ", ""), *_domain(shown)), ((others, "dim"),)


def _headline(health: Health) -> Line:
    """Return the most important problem of a resource for a narrow card."""
    if health.state == "failed":
        return (("  failed", "bad"),)
    if health.p95_ms is None:
        return ((f"  {health.state}", "dim"),)
    if health.failures:
        return ((f"! {format_percent(health.failures)}", "bad"),)
    return (("  ", ""), (format_rate(health.requests), "" if health.requests else "dim"))


def _third(health: Health, *, narrow: bool) -> tuple[Line, Line]:
    if health.state == "failed":
        return (("  build failed", "bad"),), ()
    if health.p95_ms is None:
        if health.state == "building":
            return (("  building", "warn"),), ()
        return (("  ready" if health.state == "ready" else "  not built yet", "dim"),), ()
    failed: Piece = (f"{format_percent(health.failures)} failed", "bad")
    if health.failures and narrow:
        return (("  ", ""), failed), ()
    right: Piece = (size(health.peak_memory), "dim") if health.peak_memory else ("", "")
    left: Line = (("  " if narrow else "  p95 ", "dim"), (duration(int(health.p95_ms * 1e6)), ""))
    return left, (failed if health.failures else right,)


def _rate(per_second: float, room: int) -> str:
    text = format_rate(per_second)
    return text if len(text) <= room else format_frequency(per_second, "")


def door_card(name: str, door: BoardDoor, width: int) -> tuple[Line, ...]:
    """Return the card of a Door: its name, and its size, rate or calls."""
    left = right = ""
    if door.count is not None:
        left = plural(door.count, door.unit) if door.count else f"no {door.unit}s"
        right = size(door.bytes) if door.bytes and width >= NARROW_DOOR else ""
    elif not door.unit:
        left = plural(sum(door.users.values()), "call") if door.users else "no calls"
    if door.records is not None:
        texts = [format_frequency(door.records, unit) for unit in (" records", " rec", "")]
        left = next((text for text in texts if len(text) <= width - 2), texts[-1])
    return (
        _line(width, (("◆ ", "violet"), (name, "bold"))),
        _line(width, ((f"  {left}", "dim"),), ((right, "dim"),)),
    )


def _line(width: int, left: Line, right: Line = ()) -> Line:
    """Align pieces to both ends of a line; the left part is truncated if both do not fit."""
    right_width = _width(right)
    gap = 1 if right_width else 0
    pieces = fit_cell(left, PlacedColumn(0, max(width - right_width - gap, 0), False))
    return (*pieces, (" " * gap, ""), *right)


def format_rate(per_second: float) -> str:
    """Return a request rate as text: `5 r/min`, `0.3 r/s`, `12 r/s`, `4.1k r/s`."""
    return format_frequency(per_second, " r")


def format_frequency(per_second: float, unit: str) -> str:
    """Return a rate with its unit; per minute below 0.1 per second."""
    if per_second >= 999.5:
        return f"{per_second / 1000:.1f}k{unit}/s"
    if per_second >= 9.95 or per_second < 0.005:
        return f"{per_second:.0f}{unit}/s"
    return f"{per_second:.1f}{unit}/s" if per_second >= 0.095 else f"{per_second * 60:.0f}{unit}/min"


def format_percent(fraction: float) -> str:
    """Return a fraction as text: `2.1 %`."""
    return f"{fraction * 100:.1f} %" if fraction < 0.1 else f"{fraction * 100:.0f} %"


DoorTab = Literal["tables", "logs", "jobs", "files"]
_KEY = 11
"""Width of the labels in cells."""
MIN_HINT_GAP = 3
"""Minimum blank cells before a hint."""
_STAGES: dict[Stage, str] = {
    "waiting": "waiting for its build", "building": "building", "ready": "ready", "failed": "build failed",
}  # fmt: skip


_QUOTAS = {
    "instances": "{} requests at once",
    "memory_mb": "{} MiB of memory for them",
    "requests": "{} requests a second",
    "storage_mb": "{} MiB of tables",
    "egress": "{} calls to other servers a second",
    "files_mb": "{} MiB of files",
}


def resource_summary(resource: BoardResource, health: Health) -> Line:
    """Return the summary of a resource: its address and state."""
    address: Piece = (health.address or "", "")
    if not resource.public:
        address = ("private, reached through its mounts", "dim")
    text = _STAGES[health.state]
    if health.state == "failed":
        text = f"{text}: {sanitize(health.failure['message'])}"
    stage: Piece = (text, TONES[health.state] if health.state != "ready" else "dim")
    return (resource.name, "bold"), ("  ", ""), address, ("  ", ""), stage


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


def resource_details(
    resource: BoardResource,
    health: Health,
    mounts: Iterable[BoardMount],
    addresses: Sequence[str],
    service: Sequence[str],
) -> Sequence[Labeled]:
    """Return the details of a resource; `addresses` are the routes at which it is mounted.

    `service` has the lines of `service_limits`.
    """
    error = health.failure
    states = ((each, sanitize(domain_state(each)[1])) for each in health.domains)
    domains: list[Line] = [(*_domain(each), (f"  {state}", "dim")) for each, state in states]
    return (
        ("state", [((_stage_line(health), health_tone(health)),)]),
        ("", [((line, "bad"),) for line in error["message"].splitlines()]),
        ("", error["output"].splitlines()),
        ("", [(("e opens the first error in your editor", "dim"),)] if error["file"] else []),
        ("", error["hint"].splitlines()),
        ("address", [((health.address or "private: 404 from outside", "" if health.address else "dim"),)]),
        ("domains", domains),
        ("", [(("Y copies the DNS records to set", "dim"),)] if lacking_domains(health) else []),
        ("mounted at", addresses),
        ("mounts", [((mount.pattern, "accent"), (f" → {mount.target}", "")) for mount in mounts]),
        ("fallback", [f"→ {resource.fallback}"] if resource.fallback else []),
        ("schedules", [*map(_schedule, health.schedules)]),
        ("last minute", [_rates(health)]),
        ("limits", [f"{resource.run_limit_secs} s per request, {resource.memory_limit_mb} MiB of memory"]),
        ("service", service),
        ("egress", resource.egress or [(("none", "dim"),)]),
        ("env", [", ".join(resource.env)] if resource.env else []),
        ("secrets", [", ".join(resource.secrets)] if resource.secrets else []),
    )


def _schedule(schedule: Mapping[str, Any]) -> Line:
    """Return when a schedule occurs next, and how its last run ended."""
    coming, last, ended = schedule["next"], schedule["last"], ""
    following = f"next {local_time(coming)}" if coming else "paused" if schedule["paused"] else "no next time"
    if last is not None:
        outcome = " ".join(str(each) for each in (last["state"], last["status"]) if each is not None)
        ended = f"last {outcome} at {local_time(last['started'])}"
    tone: Tone = "bad" if last is not None and last["state"] != "succeeded" else "dim"
    return (schedule["path"], "accent"), (f"  {following}  ", ""), (ended, tone)


def _stage_line(health: Health) -> str:
    if health.state == "failed":
        return f"build failed; {'the previous' if health.serves else 'no'} version is serving"
    if health.state == "ready" and health.build_seconds is not None:
        return f"ready, built in {duration(int(health.build_seconds * 1e9))}"
    return _STAGES[health.state]


def _rates(health: Health) -> Line:
    if health.p95_ms is None:
        return (("no requests", "dim"),)
    memory = f", peak memory {size(health.peak_memory)}" if health.peak_memory is not None else ""
    failed = f", {format_percent(health.failures)} failed" if health.failures else ""
    rate = f"{format_rate(health.requests)}, p95 {duration(int(health.p95_ms * 1e6))}"
    return (rate + memory, ""), (failed, "bad")


def door_tab(name: str) -> DoorTab:
    """Return the tab that shows what a Door stores or records."""
    return next((tab for tab in get_args(DoorTab) if tab == name), "logs")


def door_details(name: str, door: BoardDoor) -> Sequence[Labeled]:
    """Return the details of a Door: what it is for, its size and its users."""
    calls = sorted(door.users.items(), key=lambda user: -user[1])
    width = max((len(user) for user, _ in calls), default=0)
    users: list[Line] = [((f"{user:<{width}}  ", ""), (f"{count:,}", "teal")) for user, count in calls]
    contents = "" if door.count is None else f"{door.count:,}"
    contents += "" if door.bytes is None else f", {size(door.bytes)}"
    contents += "" if door.log_bytes is None else f", history {size(door.log_bytes)}"
    return (
        ("Door", [door.purpose]),
        ("address", [f"in the variable {door.variables[0]}"]),
        (f"{door.unit}s", [contents] if contents else []),
        ("records", [format_frequency(door.records, "")] if door.records is not None else []),
        ("called by", users or [(("no resource since the start", "dim"),)]),
        ("", [((f"enter opens {door_tab(name).capitalize()}", "dim"),)]),
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
    gap = width - _width(line) - cell_len(hint)
    return (*line, (" " * gap, ""), (hint, "dim")) if gap >= MIN_HINT_GAP else line


def table(rows: Iterable[Labeled], room: int) -> list[Line]:
    """Return lines with their labels; values longer than `room` are wrapped."""
    lines: list[Line] = []
    for key, values in rows:
        texts: Iterable[Line] = (((each, ""),) if isinstance(each, str) else each for each in values)
        clean = ([(sanitize(text), tone) for text, tone in each] for each in texts)
        parts = wrap_lines(clean, room - _KEY - 2)
        lines += [((f"{key if at == 0 else '':<{_KEY}}  ", "dim"), *part) for at, part in enumerate(parts)]
    return lines


_FLEET_GAP = 2
_FLEET_HEADS = ("  node", "state", "tables", "role", "svc", "address")


def fleet_line(fleet: ObservedFleet, room: int) -> Line:
    """Return one line: the nodes, whether there is a quorum, and the lag of the tables.

    Where the nodes do not fit, it has the number of those that are present, and names the others.
    """
    if not fleet.serving:
        return (("fleet  ", "dim"), (fleet.summary(), "warn"))
    some = [node for node in fleet.nodes if not node.good]
    good: Line = ((f"{SIGNS['ready']} {len(fleet.nodes) - len(some)} present", "good"), ("  ", ""))
    end: Line = (("quorum yes", "dim"),) if fleet.quorum else (("quorum no", "bad"),)
    if fleet.lag_ms is not None:
        lag: Piece = (f"tables {lag_text(fleet.lag_ms)}", "warn" if fleet.lag_ms else "dim")
        end = (*end, (", ", "dim"), lag)
    for head in ((("fleet  ", "dim"),), ()):
        for first, nodes in (((), fleet.nodes), (good, some)):
            line = (*head, *first, *(piece for node in nodes for piece in _node_piece(node)), *end)
            if _width(line) <= room:
                return line
    others = f"{len(some)} {'not ready' if any(node.reached for node in some) else 'away'}"
    return (*good, (f"{SIGNS['waiting']} {others}", "bad"), ("  ", ""), *end)


def fleet_details(fleet: ObservedFleet, room: int) -> tuple[str, list[Line]]:
    """Return title and lines about all nodes; the last columns are left out where they do not fit."""
    heads: list[Line] = [((head, "dim"),) for head in _FLEET_HEADS]
    rows = [heads, *map(_node_cells, fleet.nodes)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 2 and sum(widths) + _FLEET_GAP * (len(widths) - 1) > room:
        widths.pop()
    lines: list[Line] = []
    for row in rows:
        pairs = zip(row, widths, strict=False)
        padded = ((*cell, (" " * (width - _width(cell) + _FLEET_GAP), "")) for cell, width in pairs)
        lines.append(tuple(chain.from_iterable(padded)))
    note: Line = (("quorum yes", "good"), ("  most keepers answer: writes are stored", "dim"))
    if not fleet.serving:
        note = ((fleet.summary(), "warn"),)
    elif not fleet.quorum:
        failing = "  most keepers do not answer: writes, deploys and logins fail"
        note = (("quorum no", "bad"), (failing, ""))
    return f"fleet {fleet.fleet}", [*lines, (), note]


def _node_cells(node: ObservedNode) -> list[Line]:
    return [
        _marked(node, node.id),
        ((node.state(), "" if node.good else _node_tone(node)),),
        ((node.tables, "warn" if node.lag_ms else "dim"), (", leads" if node.leads else "", "dim")),
        ((node.role, "dim"),),
        ((node.version, "dim"),),
        ((node.address, "dim"),),
    ]


def _node_piece(node: ObservedNode) -> Line:
    state = "" if node.good else f" {node.state() if node.reached else 'away'}"
    return (*_marked(node, node.name), (state, _node_tone(node)), ("  ", ""))


def _marked(node: ObservedNode, name: str) -> Line:
    """Return the sign of a node's state and its name."""
    stage: Stage = "waiting" if not node.present else "ready" if node.good else "building"
    return (
        (f"{SIGNS[stage]} ", _node_tone(node)),
        (name, "bold" if node.this else ""),
        (" here" if node.this else "", "dim"),
    )


def _node_tone(node: ObservedNode) -> Tone:
    return "good" if node.good else "warn" if node.reached else "bad"


def _width(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)
