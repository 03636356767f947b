"""Layout of the Board: positions of a graph in terminal cells.

Pure and deterministic. `node_layout` places the nodes, `edge_routing` the edges, and `render` fills the
cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screens.board import edge_routing, node_layout
from screens.board.edge_routing import Point
from screens.board.graph import Graph
from screens.board.node_layout import End, Rows, Side
from screens.board.render import Box, DiagramCell, Hit, Route, draw_cells


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """A graph with positions in cells, from the top left corner.

    `boxes` has the rectangle of each node including its border, `routes` the path of each edge, and `cells`
    all cells that are not empty.
    """

    width: int
    height: int
    boxes: Mapping[str, Box]
    routes: Mapping[str, Route]
    cells: Mapping[Point, DiagramCell]

    def hit(self, x: int, y: int) -> Hit | None:
        """Return the node or edge in a cell; for crossing edges, the first."""
        cell = self.cells.get((x, y))
        return cell.hit if cell is not None else None


def layout(graph: Graph, spread: int = 0, row_gap: int = 0) -> GraphLayout:
    """Lay out a graph.

    `spread` is added to the distance of columns, `row_gap` (an even number) to the distance of nodes.
    """
    columns = node_layout.order_nodes(graph)
    links = node_layout.edge_ends(graph, columns)
    rows = node_layout.assign_rows(graph, columns, links, row_gap)
    ports = edge_routing.assign_ports(links, rows)
    lanes = edge_routing.assign_lanes(links, rows)
    segments = edge_routing.vertical_segments(links, ports, lanes)
    gaps = edge_routing.divide_gaps(links, segments, len(columns))
    boxes, gap_at = _horizontal(graph, columns, rows, gaps, spread)
    routes = {}
    for link in links:
        key, begin, end = link.edge.key, ports[link.edge.key].source, ports[link.edge.key].target
        corners = [
            (gap_at[segment.gap] + spread // 2 + gaps[segment.gap].tracks[segment.track], row)
            for segment in segments[key]
            for row in (segment.begin, segment.end)
        ]
        points = ((_border(boxes, link.source), begin), *corners, (_border(boxes, link.target), end))
        label_offset = spread // 2 + gaps[link.target.gap].tracks_end if link.target.side is Side.LEFT else 0
        label = edge_routing.label_text(link)
        label_at = (gap_at[link.target.gap] + label_offset + 1, end) if label else points[0]
        routes[key] = Route(points, label, label_at)
    cells = draw_cells(boxes, routes)
    width = max((x for x, _ in cells), default=-1) + 1
    height = max((y for _, y in cells), default=-1) + 1
    return GraphLayout(width, height, boxes, routes, cells)


def _horizontal(
    graph: Graph,
    columns: Sequence[Sequence[str]],
    rows: Mapping[str, Rows],
    gaps: Sequence[edge_routing.Gap],
    spread: int,
) -> tuple[dict[str, Box], list[int]]:
    """Return the box of each node and the first cell of each gap; boxes of a column have the same width."""
    widths = {node.key: node.width + 2 for node in graph.nodes}
    boxes: dict[str, Box] = {}
    gap_at = []
    x = 0
    for column, gap in zip(columns, gaps, strict=True):
        width = max(widths[key] for key in column)
        for key in column:
            boxes[key] = Box(x, rows[key].top, width, rows[key].bottom - rows[key].top + 1)
        gap_at.append(x + width)
        x += width + gap.width + spread
    return boxes, gap_at


def _border(boxes: Mapping[str, Box], end: End) -> int:
    box = boxes[end.node]
    return box.x if end.side is Side.LEFT else box.x + box.width - 1
