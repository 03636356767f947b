from collections import Counter
from itertools import pairwise, takewhile
from typing import Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screens.board.layout import (
    HEAVY,
    UNICODE,
    BoardColumn,
    Box,
    E,
    Edge,
    Graph,
    GraphLayout,
    Hit,
    N,
    Node,
    Point,
    Route,
    S,
    W,
    layout,
    route_masks,
)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FRONT, DYNAMIC, DOORS = BoardColumn
STEPS = {N: (0, -1), E: (1, 0), S: (0, 1), W: (-1, 0)}
BACK = {N: S, E: W, S: N, W: E}
Trunk = Literal["", "source", "target"]
TRUNKS: tuple[Trunk, ...] = ("source", "target")


@st.composite
def graphs(draw: st.DrawFn, *trunks: Trunk) -> Graph:
    """Generate graphs with parallel edges, cycles and empty columns."""
    count = draw(st.integers(0, 9))
    nodes = tuple(
        Node(f"n{i}", draw(st.sampled_from(BoardColumn)), draw(st.integers(0, 20)), draw(st.integers(0, 6)))
        for i in range(count)
    )
    edges = []
    if count > 1:
        pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
        for source, target in draw(st.lists(pair.filter(lambda ends: ends[0] != ends[1]), max_size=16)):
            trunk = draw(st.sampled_from(("", *trunks)))
            label = draw(st.sampled_from(["", "/*", "/api/*", "/a/rather/long/prefix/of/a/path/*"]))
            without = trunk == "target"
            edges.append(Edge(f"e{len(edges)}", f"n{source}", f"n{target}", "" if without else label, trunk))
    return Graph(nodes, tuple(edges))


def lines_of(placed: GraphLayout, glyphs: str = UNICODE) -> list[str]:
    """Return a diagram as text, without the text of the nodes."""
    return [
        "".join(
            cell.glyph(glyphs) if (cell := placed.cells.get((x, y))) is not None else " "
            for x in range(placed.width)
        )
        for y in range(placed.height)
    ]


def along(route: Route) -> list[Point]:
    """Return the cells of a path in order, including both border cells."""
    cells = [route.points[0]]
    for (ax, ay), (bx, by) in pairwise(route.points):
        assert (ax == bx) != (ay == by)
        dx, dy = (bx > ax) - (bx < ax), (by > ay) - (by < ay)
        while cells[-1] != (bx, by):
            cells.append((cells[-1][0] + dx, cells[-1][1] + dy))
    return cells


def owned(graph: Graph, placed: GraphLayout) -> dict[str, list[tuple[Point, str]]]:
    """Return the owner of each cell of all paths: the edge, or its trunk on the shared part."""
    ways = {key: along(route) for key, route in placed.routes.items()}
    result = {}
    for edge in graph.edges:
        step = -1 if edge.trunk == "target" else 1
        trunk = f"{edge.trunk} {edge.source if step > 0 else edge.target}"
        way = ways[edge.key][::step]
        others = [
            ways[other.key][::step]
            for other in graph.edges
            if edge.trunk and other is not edge and other.trunk == edge.trunk
        ]
        shared = max((in_common(way, other) for other in others), default=0)
        result[edge.key] = [(point, trunk if at < shared else edge.key) for at, point in enumerate(way)]
    return result


def in_common(way: list[Point], other: list[Point]) -> int:
    """Return the number of cells that two paths share at their start."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(way, other, strict=False))))


def of(box: Box) -> set[Point]:
    return {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + box.height)}


@UNHURRIED
@given(graphs(*TRUNKS))
def test_nodes_do_not_overlap_and_have_requested_size(graph: Graph) -> None:
    graph_layout = layout(graph)
    count = Counter(point for box in graph_layout.boxes.values() for point in of(box))
    assert set(count.values()) <= {1}
    for node in graph.nodes:
        box = graph_layout.boxes[node.key]
        assert box.width >= node.width + 2 and box.height >= node.height + 2
        assert box.x >= 0 and box.x + box.width <= graph_layout.width
        assert box.y >= 0 and box.y + box.height <= graph_layout.height


@UNHURRIED
@given(graphs(*TRUNKS))
def test_columns_are_ordered_and_nodes_stacked(graph: Graph) -> None:
    graph_layout = layout(graph)
    spans = {}
    for node in graph.nodes:
        box = graph_layout.boxes[node.key]
        spans.setdefault(node.column, set()).add((box.x, box.x + box.width))
    assert all(len(keys) == 1 for keys in spans.values())
    edges = [place for column in sorted(spans) for span in spans[column] for place in span]
    assert edges == sorted(edges)


@UNHURRIED
@given(graphs(*TRUNKS), st.integers(0, 9))
def test_edges_connect_their_nodes_and_cross_no_node(graph: Graph, spread: int) -> None:
    graph_layout = layout(graph, spread)
    filled = {point for box in graph_layout.boxes.values() for point in of(box)}
    assert graph_layout.routes.keys() == {edge.key for edge in graph.edges}
    for edge in graph.edges:
        begin, *between, end = along(graph_layout.routes[edge.key])
        for point, key in ((begin, edge.source), (end, edge.target)):
            box = graph_layout.boxes[key]
            assert point[0] in (box.x, box.x + box.width - 1)
            assert box.y < point[1] < box.y + box.height - 1
        assert not filled & set(between)


@UNHURRIED
@given(graphs(*TRUNKS))
def test_edges_share_only_crossings_and_trunks(graph: Graph) -> None:
    graph_layout = layout(graph)
    cells = {cell for way in owned(graph, graph_layout).values() for cell in way}
    corners = {point for route in graph_layout.routes.values() for point in route.points}
    for point, times in Counter(point for point, _ in cells).items():
        assert times == 1 or (times == 2 and point not in corners and graph_layout.cells[point].mask == E | W)


@UNHURRIED
@given(graphs(*TRUNKS))
def test_edges_share_at_most_one_trunk(graph: Graph) -> None:
    graph_layout = layout(graph)
    for edge in graph.edges:
        begin, end = graph_layout.routes[edge.key].points[0], graph_layout.routes[edge.key].points[-1]
        for other in graph.edges:
            points = graph_layout.routes[other.key].points
            if other is not edge:
                both = (edge.trunk, edge.trunk) == (other.trunk, "source") and edge.source == other.source
                assert begin != points[0] or both
                both = (edge.trunk, edge.trunk) == (other.trunk, "target") and edge.target == other.target
                assert end != points[-1] or both


def follow(placed: GraphLayout, key: str) -> Hit | None:
    """Return the node reached by following the drawn lines from the start of an edge."""
    (x, y), ahead = placed.routes[key].points[:2]
    direction = E if ahead[0] > x else W
    assert placed.cells[x, y].mask & direction
    while True:
        x, y = x + STEPS[direction][0], y + STEPS[direction][1]
        cell = placed.cells[x, y]
        if direction in (N, S) and cell.mask == E | W:
            continue  # Below another edge.
        assert cell.mask & BACK[direction]
        if cell.arrow:
            assert cell.arrow == direction
            return placed.hit(x + STEPS[direction][0], y)
        direction = cell.mask & ~BACK[direction]


@UNHURRIED
@given(graphs(), st.integers(0, 9))
def test_following_line_leads_to_edge_target(graph: Graph, spread: int) -> None:
    graph_layout = layout(graph, spread)
    for edge in graph.edges:
        assert follow(graph_layout, edge.key) == Hit("node", edge.target)


@UNHURRIED
@given(graphs(*TRUNKS), st.integers(0, 9))
def test_route_masks_match_route(graph: Graph, spread: int) -> None:
    graph_layout = layout(graph, spread)
    for edge in graph.edges:
        route = graph_layout.routes[edge.key]
        for point, mask in route_masks(route).items():
            cell = graph_layout.cells[point]
            assert cell.mask & mask == mask or (cell.mask, mask) == (E | W, N | S)
        (x, y), (before, _) = route.points[-1], along(route)[-2]
        assert graph_layout.cells[before, y].arrow == (E if before < x else W)


@UNHURRIED
@given(graphs(*TRUNKS))
def test_hit_returns_node_or_edge_of_cell(graph: Graph) -> None:
    graph_layout = layout(graph)
    expected: dict[Point, set[Hit]] = {}
    for key, box in graph_layout.boxes.items():
        for point in of(box):
            expected[point] = {Hit("node", key)}
    for key, route in graph_layout.routes.items():
        for point in along(route)[1:-1]:
            expected.setdefault(point, set()).add(Hit("edge", key))
    assert graph_layout.cells.keys() == expected.keys()
    for (x, y), hits in expected.items():
        assert graph_layout.hit(x, y) in hits
    assert (
        graph_layout.hit(-1, 0) is None and graph_layout.hit(graph_layout.width, graph_layout.height) is None
    )


@UNHURRIED
@given(graphs(*TRUNKS))
def test_labels_are_complete_and_lines_have_equal_length(graph: Graph) -> None:
    graph_layout = layout(graph)
    for glyphs in (UNICODE, HEAVY):
        lines = lines_of(graph_layout, glyphs)
        assert len(lines) == graph_layout.height and {len(line) for line in lines} <= {graph_layout.width}
        for edge in graph.edges:
            route = graph_layout.routes[edge.key]
            x, y = route.label_at
            assert lines[y][x : x + len(route.label)] == route.label
            assert route.label.strip() == edge.label or route.label.endswith("… ")


@UNHURRIED
@given(graphs(*TRUNKS))
def test_layout_is_deterministic(graph: Graph) -> None:
    assert layout(graph) == layout(Graph(graph.nodes, graph.edges))


def test_layout_of_example_project() -> None:
    graph = Graph(
        (
            Node("front", FRONT, 7, 2),
            Node("feed", DYNAMIC, 6, 2),
            Node("api", DYNAMIC, 6, 3),
            Node("tables", DOORS, 6, 2),
        ),
        (
            Edge("1", "front", "api", "/api/*", "source"),
            Edge("2", "front", "feed", "/feed", "source"),
            Edge("3", "api", "tables", trunk="target"),
            Edge("4", "feed", "api", "/x", "source"),
            Edge("5", "feed", "tables", trunk="target"),
        ),
    )
    assert [line.rstrip() for line in lines_of(layout(graph))] == PICTURE[1:-1].split("\n")


PICTURE = """
                      ╭──────╮
                      │      ├────────╮
          ╭─ /feed ──▶│      │        │
          │           │      ├──────╮ │
╭───────╮ │           ╰──────╯      │ │  ╭──────╮
│       ├─┤                         │ │  │      │
│       │ │           ╭──────╮      │ ├─▶│      │
╰───────╯ │           │      │◀ /x ─╯ │  ╰──────╯
          ╰─ /api/* ─▶│      │        │
                      │      ├────────╯
                      ╰──────╯
"""


def test_level_nodes_have_straight_edges() -> None:
    nodes = tuple(
        Node(f"{name}{i}", column, 8, 3)
        for i in range(3)
        for name, column in zip("abc", BoardColumn, strict=True)
    )
    edges = [(f"a{i}", f"b{i}") for i in range(3)] + [(f"b{i}", f"c{i}") for i in range(3)]
    graph = Graph(nodes, tuple(Edge(a + b, a, b, "/x") for a, b in edges))
    assert {len(route.points) for route in layout(graph).routes.values()} == {2}


def test_neighbors_are_level_and_edges_do_not_cross() -> None:
    fronts = tuple(Node(f"a{i}", FRONT, 8, 3) for i in range(5))
    others = tuple(Node(f"b{i}", DYNAMIC, 8, 3) for i in reversed(range(5)))
    graph = Graph(fronts + others, tuple(Edge(f"{i}", f"a{i}", f"b{i}") for i in range(5)))
    graph_layout = layout(graph)
    assert [graph_layout.boxes[f"b{i}"].y for i in range(5)] == [
        graph_layout.boxes[f"a{i}"].y for i in range(5)
    ]


def test_empty_graph_has_empty_layout() -> None:
    assert lines_of(layout(Graph())) == []
