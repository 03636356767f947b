"""Keyboard navigation in a diagram."""

from typing import cast, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screens.board.diagram import Diagram, Direction, build_diagram, first_node, next_edge, next_in_direction
from screens.board.layout import Hit
from screens.board.project import BoardMount, Manifest
from tests.screens.board.resources import resource

DIRECTIONS = cast(tuple[Direction, ...], get_args(Direction))
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def layout_of(
    lanes: dict[str, str], *mounts: tuple[str, str, str], users: frozenset[str] = frozenset()
) -> Diagram:
    resources = {name: resource(name, lane) for name, lane in lanes.items()}
    manifest = Manifest(resources, tuple(BoardMount(*mount) for mount in mounts), "digest")
    return build_diagram(manifest, (), {"tables": users, "telemetry": frozenset()}, 100)


PULSE = layout_of(
    {"web": "static", "api": "js", "ticks": "go"}, ("web", "/api/*", "api"), ("web", "/events", "ticks")
)
API, EVENTS = Hit("edge", "web /api/* api"), Hit("edge", "web /events ticks")


def node(name: str) -> Hit:
    return Hit("node", name)


def test_first_node_is_first_resource() -> None:
    assert first_node(PULSE) == next_in_direction(PULSE, None, "left") == node("web")
    assert first_node(layout_of({})).__class__ is Hit and first_node(layout_of({})) == node("door tables")


def test_arrows_follow_edges_and_columns() -> None:
    edge = next_in_direction(PULSE, node("web"), "right")
    assert edge in (API, EVENTS)
    assert next_in_direction(PULSE, API, "right") == node("api") and next_in_direction(
        PULSE, API, "left"
    ) == node("web")
    assert next_in_direction(PULSE, API, "down") == EVENTS and next_in_direction(PULSE, EVENTS, "up") == API
    assert next_in_direction(PULSE, node("api"), "down") == node("ticks") and next_in_direction(
        PULSE, node("ticks"), "up"
    ) == node("api")


def test_arrow_without_next_item_returns_current() -> None:
    assert next_in_direction(PULSE, node("web"), "left") == node("web")
    assert next_in_direction(PULSE, node("door telemetry"), "right") == node("door telemetry")


def test_tab_cycles_through_edges() -> None:
    assert next_edge(PULSE, node("ticks"), 1) == EVENTS
    assert next_edge(PULSE, API, 1) == EVENTS and next_edge(PULSE, EVENTS, 1) == API
    assert next_edge(PULSE, API, -1) == EVENTS


def test_tab_without_edges_cycles_through_nodes() -> None:
    plain = layout_of({"web": "static", "api": "js"})
    assert next_edge(plain, node("web"), 1) != node("web")


@st.composite
def projects(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str]]]:
    lanes = {f"r{i}": draw(st.sampled_from(["static", "js"])) for i in range(draw(st.integers(1, 6)))}
    pairs = [(a, b) for a in lanes for b in lanes if a < b]
    return lanes, draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True)) if pairs else []


@UNHURRIED
@given(projects())
def test_keys_reach_every_item(project: tuple[dict[str, str], list[tuple[str, str]]]) -> None:
    lanes, mounts = project
    mounted = ((source, f"/{target}/*", target) for source, target in mounts)
    result = layout_of(lanes, *mounted, users=frozenset(source for source, _ in mounts))
    reached: set[Hit] = set()
    begin = first_node(result)
    assert begin is not None
    waiting = [begin]
    while waiting:
        at = waiting.pop()
        if at in reached:
            continue
        reached.add(at)
        steps = [next_in_direction(result, at, direction) for direction in DIRECTIONS]
        waiting += [hit for hit in [*steps, next_edge(result, at, 1), next_edge(result, at, -1)] if hit]
    nodes = {Hit("node", each.key) for each in result.graph.nodes}
    assert reached == nodes | {Hit("edge", each.key) for each in result.graph.edges}
