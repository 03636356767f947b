"""From a Project to its picture."""

from screens.board.diagram import Use, door_of, picture
from screens.board.edits import Edit
from screens.board.graph import Column
from screens.board.project import Manifest, Mount, Resource
from screens.board.render import Hit

LANES = {"web": "static", "api": "js", "ticks": "go", "edge": "js"}
API, TICKS, EDGE = (
    Mount("web", "/api/*", "api"),
    Mount("web", "/ticks", "ticks"),
    Mount("edge", "/api/*", "api"),
)
KINDS = {"static": "image", "js": "component", "go": "component", "rust": "component"}
RESOURCES = {
    name: Resource(name, lane, KINDS[lane], True, 30, 128, (), (), ()) for name, lane in LANES.items()
}
MANIFEST = Manifest(RESOURCES, (API, TICKS, EDGE), "digest")
NOBODY = {"tables": frozenset[str](), "telemetry": frozenset[str]()}


def test_front_ends_stand_before_what_they_mount_and_doors_last() -> None:
    columns = {node.key: node.column for node in picture(MANIFEST, (), NOBODY, 120).graph.nodes}
    assert columns == {
        "web": Column.FRONT_ENDS,
        "edge": Column.FRONT_ENDS,
        "api": Column.DYNAMIC,
        "ticks": Column.DYNAMIC,
        "door tables": Column.DOORS,
        "door telemetry": Column.DOORS,
    }


def test_who_asked_a_door_has_a_line_to_it() -> None:
    users = NOBODY | {"tables": frozenset({"api", "gone"})}
    shown = picture(MANIFEST, (), users, 120)
    assert list(shown.uses.values()) == [Use("api", "tables")]
    (key,) = shown.uses
    points = shown.placed.routes[key].points
    assert shown.placed.hit(points[0][0], points[0][1]) == Hit("node", "api")
    assert door_of("door tables") == "tables" and door_of("api") is None


def test_cards_take_the_room_there_is_and_columns_spread_in_what_is_left() -> None:
    rooms = (60, 80, 100, 120, 160, 400)
    widths = [picture(MANIFEST, (), NOBODY, room).placed.width for room in rooms]
    assert widths == sorted(widths) and widths[-1] == widths[-2]
    assert all(width <= room for width, room in zip(widths[1:], rooms[1:], strict=True))
    assert widths[-1] < 160


GUESTBOOK = Manifest(
    {
        name: Resource(name, lane, KINDS[lane], lane == "static", 30, 128, (), (), ())
        for name, lane in {"front": "static", "js": "js", "go": "go", "rust": "rust"}.items()
    },
    tuple(Mount("front", f"/{name}/*", name) for name in ("js", "go", "rust")),
    "digest",
)
EVERYBODY = dict.fromkeys(NOBODY, frozenset({"js", "go", "rust"}))


def test_three_resources_that_use_both_doors_fit_into_the_smallest_usual_terminal() -> None:
    placed = picture(GUESTBOOK, (), EVERYBODY, 78).placed
    assert placed.width <= 78 and placed.height <= 20


def test_three_columns_fit_into_a_terminal_of_60_cells() -> None:
    shown = picture(GUESTBOOK, (), EVERYBODY, 58)
    assert shown.placed.width <= 58 and shown.padding == 0


def test_nodes_stand_where_they_stood_when_the_first_asks_a_door() -> None:
    some = {"tables": frozenset({"rust"}), "telemetry": frozenset({"go"})}
    before, after = (picture(GUESTBOOK, (), users, 158).placed.boxes for users in (NOBODY, some))
    assert {key: box.y for key, box in before.items()} == {key: box.y for key, box in after.items()}


def test_nodes_stand_apart_where_there_is_room() -> None:
    heights = [picture(GUESTBOOK, (), EVERYBODY, 158, rows).placed.height for rows in (0, 20, 24, 40)]
    assert heights == [17, 17, 21, 25]


def test_edges_to_one_door_meet_and_each_can_be_hit() -> None:
    shown = picture(GUESTBOOK, (), EVERYBODY, 78)
    ends = {shown.placed.routes[key].points[-1] for key, use in shown.uses.items() if use.door == "tables"}
    assert len(ends) == 1
    hits = {cell.hit.key for cell in shown.placed.cells.values()}
    assert {*shown.uses, *shown.mounts} <= hits


def test_what_comes_and_goes_is_marked_in_its_label() -> None:
    later = Mount("web", "/later", "ticks")
    shown = picture(MANIFEST, [Edit(API, None), Edit(TICKS, later)], NOBODY, 120)
    assert sorted(edge.label for edge in shown.graph.edges) == ["+ /later", "- /api/*", "- /ticks", "/api/*"]
