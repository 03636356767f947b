"""From a Project to its picture."""

from screens.board.draw import Hit
from screens.board.edits import Edit
from screens.board.graph import Column
from screens.board.picture import Use, door_of, picture
from screens.board.project import Manifest, Mount, Resource

LANES = {"web": "static", "api": "js", "ticks": "go", "edge": "js"}
API, TICKS, EDGE = (
    Mount("web", "/api/*", "api"),
    Mount("web", "/ticks", "ticks"),
    Mount("edge", "/api/*", "api"),
)
RESOURCES = {name: Resource(name, lane, True, 30, 128, (), (), ()) for name, lane in LANES.items()}
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


def test_what_comes_and_goes_is_marked_in_its_label() -> None:
    later = Mount("web", "/later", "ticks")
    shown = picture(MANIFEST, [Edit(API, None), Edit(TICKS, later)], NOBODY, 120)
    assert sorted(edge.label for edge in shown.graph.edges) == ["+ /later", "- /api/*", "- /ticks", "/api/*"]
