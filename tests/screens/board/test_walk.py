"""Where arrows and tab lead in a picture."""

from typing import cast, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screens.board.diagram import Picture, picture
from screens.board.navigation import Direction, first, next_edge, step
from screens.board.project import Manifest, Mount, Resource
from screens.board.render import Hit

DIRECTIONS = cast(tuple[Direction, ...], get_args(Direction))
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made(
    lanes: dict[str, str], *mounts: tuple[str, str, str], users: frozenset[str] = frozenset()
) -> Picture:
    resources = {
        name: Resource(name, lane, "image" if lane == "static" else "component", True, 30, 128, (), (), ())
        for name, lane in lanes.items()
    }
    manifest = Manifest(resources, tuple(Mount(*mount) for mount in mounts), "digest")
    return picture(manifest, (), {"tables": users, "telemetry": frozenset()}, 100)


PULSE = made(
    {"web": "static", "api": "js", "ticks": "go"}, ("web", "/api/*", "api"), ("web", "/events", "ticks")
)
API, EVENTS = Hit("edge", "web /api/* api"), Hit("edge", "web /events ticks")


def node(name: str) -> Hit:
    return Hit("node", name)


def test_the_first_thing_is_the_first_resource() -> None:
    assert first(PULSE) == step(PULSE, None, "left") == node("web")
    assert first(made({})).__class__ is Hit and first(made({})) == node("door tables")


def test_arrows_lead_along_edges_and_columns() -> None:
    edge = step(PULSE, node("web"), "right")
    assert edge in (API, EVENTS)
    assert step(PULSE, API, "right") == node("api") and step(PULSE, API, "left") == node("web")
    assert step(PULSE, API, "down") == EVENTS and step(PULSE, EVENTS, "up") == API
    assert step(PULSE, node("api"), "down") == node("ticks") and step(PULSE, node("ticks"), "up") == node(
        "api"
    )


def test_where_there_is_nothing_one_stays() -> None:
    assert step(PULSE, node("web"), "left") == node("web")
    assert step(PULSE, node("door telemetry"), "right") == node("door telemetry")


def test_tab_goes_through_all_edges_and_round() -> None:
    assert next_edge(PULSE, node("ticks"), 1) == EVENTS
    assert next_edge(PULSE, API, 1) == EVENTS and next_edge(PULSE, EVENTS, 1) == API
    assert next_edge(PULSE, API, -1) == EVENTS


def test_without_edges_tab_goes_through_nodes() -> None:
    plain = made({"web": "static", "api": "js"})
    assert next_edge(plain, node("web"), 1) != node("web")


@st.composite
def projects(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str]]]:
    lanes = {f"r{i}": draw(st.sampled_from(["static", "js"])) for i in range(draw(st.integers(1, 6)))}
    pairs = [(a, b) for a in lanes for b in lanes if a < b]
    return lanes, draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True)) if pairs else []


@UNHURRIED
@given(projects())
def test_keys_lead_to_everything(project: tuple[dict[str, str], list[tuple[str, str]]]) -> None:
    lanes, mounts = project
    mounted = ((source, f"/{target}/*", target) for source, target in mounts)
    shown = made(lanes, *mounted, users=frozenset(source for source, _ in mounts))
    reached: set[Hit] = set()
    begin = first(shown)
    assert begin is not None
    waiting = [begin]
    while waiting:
        at = waiting.pop()
        if at in reached:
            continue
        reached.add(at)
        steps = [step(shown, at, direction) for direction in DIRECTIONS]
        waiting += [hit for hit in [*steps, next_edge(shown, at, 1), next_edge(shown, at, -1)] if hit]
    nodes = {Hit("node", each.key) for each in shown.graph.nodes}
    assert reached == nodes | {Hit("edge", each.key) for each in shown.graph.edges}
