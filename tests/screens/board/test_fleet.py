"""Text about a fleet on the Board."""

from datetime import UTC
from typing import Any

import pytest
from rich.cells import cell_len

from screens.board.cards import Line, fleet_details, fleet_line
from screens.terminal_app import to_ascii
from svc_tui.client.fleet import ObservedFleet


def node(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"n{number}-4f2a1b",
        "address": f"10.0.0.{number}:4222",
        "role": "keeper",
        "version": "0.1.0",
        "present": True,
        "this": number == 1,
        "skew_seconds": 0.0,
        "seen": "2026-01-31T12:00:05.123456789Z",
        "lag_ms": 0,
        "leads": number == 2,
        **changes,
    }


def fleet(*nodes: dict[str, Any], **changes: Any) -> ObservedFleet:
    document = {"fleet": "9f3a1c", "serving": True, "quorum": True, "needed": 3, "nodes": nodes}
    return ObservedFleet.from_json({**document, **changes})


def plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def line(fleet: ObservedFleet, room: int = 78) -> str:
    text = plain(fleet_line(fleet, room))
    assert cell_len(text) <= room
    return text


AWAY = node(3, present=False, lag_ms=None, skew_seconds=None)


def test_line_names_nodes_quorum_and_lag() -> None:
    assert (
        line(fleet(node(1), node(2), node(3))) == "fleet  ● n1 here  ● n2  ● n3  quorum yes, tables current"
    )
    late = fleet(node(1), node(2, lag_ms=340), AWAY)
    assert line(late) == "fleet  ● n1 here  ● n2  ○ n3 away  quorum yes, tables 340 ms behind"
    unused = fleet(node(1, lag_ms=None), node(2, lag_ms=None), AWAY, quorum=False)
    assert line(unused) == "fleet  ● n1 here  ● n2  ○ n3 away  quorum no"
    assert to_ascii(line(late)).startswith("fleet  * n1 here  * n2  o n3 away")


def test_narrow_line_counts_the_nodes_that_are_present() -> None:
    assert (
        line(fleet(node(1), node(2), AWAY), 58) == "fleet  ● 2 present  ○ n3 away  quorum yes, tables current"
    )
    many = fleet(
        *(node(number) for number in range(1, 28)), *(node(number, present=False) for number in (28, 29))
    )
    assert line(many) == "fleet  ● 27 present  ○ n28 away  ○ n29 away  quorum yes, tables current"
    assert line(many, 52) == "● 27 present  ○ 2 away  quorum yes, tables current"


def test_node_that_starts_is_not_away() -> None:
    started = fleet(node(1), node(2, present=False, starting=True))
    assert line(started) == "fleet  ● n1 here  ○ n2 starting  quorum yes, tables current"
    assert [(node.state(), node.good) for node in started.nodes] == [("present", True), ("starting", False)]


def test_line_of_a_fleet_that_does_not_serve_yet() -> None:
    founding = fleet(node(1), serving=False, quorum=False)
    assert line(founding) == "fleet  1 of 3 nodes; this service serves alone until 2 more join"
    complete = fleet(node(1), node(2), node(3), serving=False, quorum=False)
    assert line(complete) == "fleet  3 of 3 nodes; this service serves alone: run `svc fleet start`"


def test_node_that_waits_for_others_has_joined_and_is_not_away() -> None:
    founding = fleet(node(1), node(2, present=False, seen=None), serving=False, quorum=False)
    assert [(node.state(), node.good) for node in founding.nodes] == [("present", True), ("joined", True)]


@pytest.mark.parametrize(
    ("room", "last"), [(120, "address"), (83, "address"), (76, "svc"), (56, "tables"), (44, "state")]
)
def test_details_have_the_columns_that_fit(room: int, last: str) -> None:
    title, lines = fleet_details(fleet(node(1), node(2), AWAY), room)
    assert title == "fleet 9f3a1c"
    assert plain(lines[0]).split()[-1] == last
    assert plain(lines[1]).startswith("● n1-4f2a1b here  present")
    assert ("current, leads" in plain(lines[2])) == (room > 44)


def test_state_says_why_a_node_needs_attention() -> None:
    clock = fleet(node(1, skew_seconds=-7.2), node(2, draining=True), AWAY)
    assert [node.state(UTC) for node in clock.nodes] == [
        "present, clock -7 s",
        "draining",
        "away since 12:00:05",
    ]
    assert [node.good for node in clock.nodes] == [False, False, False]
    assert [node.tables for node in clock.nodes] == ["current", "current", "-"]
    _, lines = fleet_details(fleet(node(1), AWAY, quorum=False), 80)
    assert plain(lines[-1]) == "quorum no  most keepers do not answer: writes, deploys and logins fail"


def test_node_without_open_copies_of_tables_differs_from_one_of_unknown_delay() -> None:
    nodes = node(1), node(2, lag_ms=None), node(3, present=False, lag_ms=None)
    assert [each.tables for each in fleet(*nodes).nodes] == ["current", "none open", "-"]
    assert [each.tables for each in fleet(*nodes, quorum=False).nodes] == ["current", "-", "-"]
