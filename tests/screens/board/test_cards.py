"""Node and panel texts never exceed their width."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from screens.board.cards import (
    NARROW,
    TALL_CARD_LINES,
    door_card,
    door_details,
    door_tab,
    format_rate,
    health_tone,
    resource_card,
    resource_details,
    service_limits,
    sparkline,
    table,
)
from screens.board.diagram import WIDTHS
from screens.board.project import BoardDoor, BoardResource, Health, ProjectStatus
from svc_tui.deploy.format import local_time
from tests.screens.board.resources import resource

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,38}", fullmatch=True)
HEALTHS = st.builds(
    Health,
    state=st.sampled_from(["waiting", "building", "ready", "failed"]),
    address=st.none() | st.just("http://web--shop.localhost:3000/"),
    build_seconds=st.none() | st.floats(0, 1000),
    serves=st.booleans(),
    error=st.none() | st.fixed_dictionaries(dict.fromkeys(("message", "hint", "output", "file"), st.text())),
    requests=st.floats(0, 1e6),
    p95_ms=st.none() | st.floats(0, 1e6),
    failures=st.floats(0, 1),
    peak_memory=st.none() | st.integers(0, 1 << 40),
    history=st.lists(st.integers(0, 10**6), max_size=60).map(tuple),
)
RESOURCES = st.builds(
    BoardResource,
    name=NAMES,
    lane=st.sampled_from(["static", "go", "rust", "js"]),
    tone=st.sampled_from(["dim", "yellow", "teal"]),
    kind=st.sampled_from(["image", "component"]),
    public=st.booleans(),
    run_limit_secs=st.integers(1, 900),
    memory_limit_mb=st.integers(16, 1024),
    egress=st.lists(st.just("https://api.example.com")).map(tuple),
    env=st.lists(st.text(min_size=1)).map(tuple),
    secrets=st.lists(NAMES).map(tuple),
)


def widths(lines: object) -> set[int]:
    assert isinstance(lines, list | tuple)
    return {sum(cell_len(text) for text, _ in line) for line in lines}


@given(RESOURCES, HEALTHS, st.sampled_from(WIDTHS))
def test_resource_card_fills_node_width(
    resource: BoardResource, health: Health, room: tuple[int, int, int]
) -> None:
    assert widths(resource_card(resource, health, room[0])) == {room[0]}
    tall = resource_card(resource, health, room[0], TALL_CARD_LINES)
    assert widths(tall) == {room[0]} and len(tall) == TALL_CARD_LINES


@given(RESOURCES, HEALTHS)
def test_resource_card_shows_lane_in_its_tone(resource: BoardResource, health: Health) -> None:
    first = resource_card(resource, health, max(NARROW, cell_len(resource.name) + 12))[0]
    assert first[-1] == (resource.lane, resource.tone)


@given(NAMES, st.none() | st.integers(0, 10**6), st.none() | st.floats(0, 1e6), st.sampled_from(WIDTHS))
def test_door_card_fills_node_width(
    name: str, tables: int | None, records: float | None, room: tuple[int, int, int]
) -> None:
    door = BoardDoor(unit="table", count=tables, bytes=1 << 40 if tables else None, records=records)
    assert widths(door_card(name, door, room[1])) == {room[1]}


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0.0, "0 r/s"),
        (1 / 60, "1 r/min"),
        (0.09, "5 r/min"),
        (0.1, "0.1 r/s"),
        (9.9, "9.9 r/s"),
        (9.99, "10 r/s"),
        (999.7, "1.0k r/s"),
        (4100, "4.1k r/s"),
    ],
)
def test_low_rate_is_formatted_per_minute(per_second: float, text: str) -> None:
    assert format_rate(per_second) == text


@given(RESOURCES, HEALTHS, st.integers(30, 100))
def test_details_fit_panel_width(resource: BoardResource, health: Health, room: int) -> None:
    status = ProjectStatus(memory=(300 << 20, 1 << 30), quota={"requests": 20, "storage_mb": 10})
    lines = table(resource_details(resource, health, (), ("web:/api/*",), service_limits(status)), room)
    assert max(widths(lines)) <= room
    text = " ".join("".join(part for part, _ in line).strip() for line in lines)
    assert "300 MiB of 1.0 GiB of memory used" in text or room < 60
    assert "quota of the project: 20 requests a second, 10 MiB of tables" in text or room < 80


def test_sparkline_shows_the_last_numbers_at_the_right() -> None:
    text = ["".join(part for part, _ in sparkline(history, 6)) for history in ((), (0, 1, 7), range(12))]
    assert text == ["▁▁▁▁▁▁", "▁▁▁▁▂█", "▂▃▄▆▇█"]


def test_dot_of_a_ready_resource_warns_of_failed_requests() -> None:
    tones = [health_tone(Health(state="ready", p95_ms=5.0, failures=share)) for share in (0.0, 0.02, 0.5)]
    assert tones == ["good", "warn", "bad"]
    assert health_tone(Health(state="building", p95_ms=5.0, failures=0.5)) == "warn"


def test_card_shows_the_domain_that_needs_attention_most_and_details_show_all() -> None:
    domains: list[dict[str, Any]] = [
        {"name": "shop.example.org", "state": "valid", "detail": "", "certificate": None},
        {"name": "www.shop.example.org", "state": "failed", "detail": "192.0.2.1 does not answer"},
        {"name": "new.example.org", "state": "waiting", "detail": "DNS has no address for this name"},
    ]
    resource = BoardResource(
        name="web",
        lane="static",
        tone="",
        kind="image",
        public=True,
        run_limit_secs=30,
        memory_limit_mb=128,
        egress=(),
        env=(),
        secrets=(),
    )
    health = Health(state="ready", domains=domains)
    card = resource_card(resource, health, 30)
    assert "".join(text for text, _ in card[1]) == "  ▲ www.shop.example… +2 0 r/s"
    lines = table(resource_details(resource, health, (), (), ()), 90)
    text = "\n".join("".join(part for part, _ in line) for line in lines)
    assert "● shop.example.org  valid" in text
    assert "▲ www.shop.example.org  failed: 192.0.2.1 does not answer" in text
    assert "◌ new.example.org  waiting for DNS: DNS has no address" in text
    assert "Y copies the DNS records to set" in text
    certificate = {"state": "failed", "until": None, "detail": "refused"}
    health = Health(state="ready", domains=[domains[0] | {"certificate": certificate}])
    lines = table(resource_details(resource, health, (), (), ()), 90)
    assert "Y copies" not in "".join(part for line in lines for part, _ in line)


def test_details_show_the_next_time_and_the_last_result_of_each_schedule() -> None:
    last = {"state": "failed", "status": 500, "started": "2026-11-28T02:00:00+00:00"}
    schedules = (
        {"path": "/nightly", "next": "2026-11-29T02:00:00+00:00", "paused": False, "last": None},
        {"path": "/poll", "next": None, "paused": True, "last": last},
    )
    health = Health(state="ready", schedules=schedules)
    lines = table(resource_details(resource("worker", "js"), health, (), (), ()), 90)
    text = "\n".join("".join(part for part, _ in line) for line in lines)
    assert f"/nightly  next {local_time('2026-11-29T02:00:00+00:00')}" in text
    assert f"/poll  paused  last failed 500 at {local_time('2026-11-28T02:00:00+00:00')}" in text
    assert {tone for line in lines for part, tone in line if "failed" in part} == {"bad"}


def test_fallback_is_on_the_card_and_in_the_details() -> None:
    front = replace(resource("web", "static"), fallback="web-server")
    card = resource_card(front, Health(), 34)
    assert "public → web-server" in "".join(text for text, _ in card[1])
    details = table(resource_details(front, Health(), (), (), ()), 60)
    (line,) = (line for line in details if line and line[0][0].startswith("fallback"))
    assert "→ web-server" in "".join(text for text, _ in line)


@pytest.mark.parametrize(
    ("door", "tab"), [("tables", "tables"), ("jobs", "jobs"), ("files", "files"), ("echo", "logs")]
)
def test_details_of_a_door_name_the_tab_that_it_opens(door: str, tab: str) -> None:
    text = "".join(text for line in table(door_details(door, BoardDoor()), 60) for text, _ in line)
    assert door_tab(door) == tab and f"enter opens {tab.capitalize()}" in text
