"""Diagrams of projects."""

from dataclasses import replace

from screens.board.diagram import Use, build_diagram, door_of
from screens.board.layout import BoardColumn, Hit
from screens.board.model import BoardModel
from screens.board.project import BoardMount, Manifest
from tests.screens.board.resources import resource

LANES = {"web": "static", "api": "js", "ticks": "go", "edge": "js"}
API, TICKS, EDGE = (
    BoardMount("web", "/api/*", "api"),
    BoardMount("web", "/ticks", "ticks"),
    BoardMount("edge", "/api/*", "api"),
)
RESOURCES = {name: resource(name, lane) for name, lane in LANES.items()}
MANIFEST = Manifest(RESOURCES, (API, TICKS, EDGE), "digest")
NO_USERS = {"tables": frozenset[str](), "telemetry": frozenset[str]()}


def test_columns_are_front_ends_mounted_resources_doors() -> None:
    columns = {node.key: node.column for node in build_diagram(MANIFEST, (), NO_USERS, 120).graph.nodes}
    assert columns == {
        "web": BoardColumn.FRONT_ENDS,
        "edge": BoardColumn.FRONT_ENDS,
        "api": BoardColumn.DYNAMIC,
        "ticks": BoardColumn.DYNAMIC,
        "door tables": BoardColumn.DOORS,
        "door telemetry": BoardColumn.DOORS,
    }


def test_resource_that_used_door_has_edge() -> None:
    users = NO_USERS | {"tables": frozenset({"api", "gone"})}
    diagram = build_diagram(MANIFEST, (), users, 120)
    assert list(diagram.uses.values()) == [Use("api", "tables")]
    (key,) = diagram.uses
    points = diagram.layout.routes[key].points
    assert diagram.layout.hit(points[0][0], points[0][1]) == Hit("node", "api")
    assert door_of("door tables") == "tables" and door_of("api") is None


def test_cards_use_available_width_and_columns_spread() -> None:
    rooms = (60, 80, 100, 120, 160, 400)
    widths = [build_diagram(MANIFEST, (), NO_USERS, room).layout.width for room in rooms]
    assert widths == sorted(widths) and widths[-1] == widths[-2]
    assert all(width <= room for width, room in zip(widths[1:], rooms[1:], strict=True))
    assert widths[-1] < 160


GUESTBOOK = Manifest(
    {
        name: resource(name, lane, public=lane == "static")
        for name, lane in {"front": "static", "js": "js", "go": "go", "rust": "rust"}.items()
    },
    tuple(BoardMount("front", f"/{name}/*", name) for name in ("js", "go", "rust")),
    "digest",
)
EVERYBODY = dict.fromkeys(NO_USERS, frozenset({"js", "go", "rust"}))


def test_three_resources_with_both_doors_fit_80_cells() -> None:
    graph_layout = build_diagram(GUESTBOOK, (), EVERYBODY, 78).layout
    assert graph_layout.width <= 78 and graph_layout.height <= 20


def test_three_columns_fit_60_cells() -> None:
    diagram = build_diagram(GUESTBOOK, (), EVERYBODY, 58)
    assert diagram.layout.width <= 58 and diagram.padding == 0


def test_first_door_use_does_not_move_nodes() -> None:
    some = {"tables": frozenset({"rust"}), "telemetry": frozenset({"go"})}
    before, after = (build_diagram(GUESTBOOK, (), users, 158).layout.boxes for users in (NO_USERS, some))
    assert {key: box.y for key, box in before.items()} == {key: box.y for key, box in after.items()}


def test_nodes_spread_vertically_if_space_allows() -> None:
    heights = [build_diagram(GUESTBOOK, (), EVERYBODY, 158, rows).layout.height for rows in (0, 20, 24, 40)]
    assert heights == [17, 17, 22, 30]


def test_edges_to_one_door_merge_and_stay_selectable() -> None:
    diagram = build_diagram(GUESTBOOK, (), EVERYBODY, 78)
    ends = {
        diagram.layout.routes[key].points[-1] for key, use in diagram.uses.items() if use.door == "tables"
    }
    assert len(ends) == 1
    hits = {cell.hit.key for cell in diagram.layout.cells.values()}
    assert {*diagram.uses, *diagram.mounts} <= hits


def test_added_and_removed_mounts_are_marked_in_labels() -> None:
    removed = {"op": "remove", "resource": API.source, "pattern": API.pattern}
    changed = {"op": "change", "resource": "web", "pattern": TICKS.pattern, "to": "/later", "target": "ticks"}
    diagram = build_diagram(MANIFEST, [removed, changed], NO_USERS, 120)
    assert sorted(edge.label for edge in diagram.graph.edges) == [
        "+ /later",
        "- /api/*",
        "- /ticks",
        "/api/*",
    ]


def test_edge_of_a_removed_resource_is_not_drawn() -> None:
    edits = [{"op": "add", "resource": "web", "pattern": "/gone/*", "target": "gone"}]
    diagram = build_diagram(MANIFEST, edits, NO_USERS, 120)
    assert [mount.mount for mount in diagram.mounts.values()] == [API, TICKS, EDGE]


def test_fallback_is_an_edge_to_a_resource_of_the_second_column() -> None:
    resources = {**RESOURCES, "web": replace(RESOURCES["web"], fallback="ticks")}
    diagram = build_diagram(Manifest(resources, (API,), "digest"), (), NO_USERS, 120)
    assert diagram.fallbacks == {"web fallback": BoardMount("web", "fallback", "ticks")}
    assert "web fallback" not in diagram.mounts
    assert diagram.layout.routes["web fallback"].label.strip() == "fallback"
    columns = {node.key: node.column for node in diagram.graph.nodes}
    assert columns["ticks"] == BoardColumn.DYNAMIC


def test_selected_fallback_is_explained_and_dim() -> None:
    model = BoardModel()
    resources = {**RESOURCES, "web": replace(RESOURCES["web"], fallback="ticks")}
    model.manifest = Manifest(resources, (API,), "digest")
    model.diagram = build_diagram(model.manifest, (), NO_USERS, 120)
    hit = Hit("edge", "web fallback")
    assert model.mount(hit) is None and model.item(hit).requested == "ticks"
    assert "".join(text for text, _ in model.item(hit).summary) == "web → ticks  as fallback"
    title, lines = model.details(hit, 60) or ("", [])
    text = "\n".join("".join(text for text, _ in line) for line in lines)
    assert title == "web → ticks" and "without a mount and a file" in text and "svc.toml" in text
    assert model.tones() == {"web fallback": "dim"}
