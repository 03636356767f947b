"""The composition root: the lanes and Doors of this installation. The only file that imports all of them."""

from doors.tables.door import TablesDoor
from doors.telemetry.door import TelemetryDoor
from engine.door import Door
from engine.lane import Lane
from lanes.go.lane import GoLane
from lanes.js.lane import JsLane
from lanes.rust.lane import RustLane
from lanes.static.lane import StaticLane


def lanes() -> dict[str, Lane]:
    """Return one of each lane, by the name that the manifest uses."""
    return {lane.name: lane for lane in (StaticLane(), GoLane(), RustLane(), JsLane())}


def doors() -> tuple[Door, ...]:
    """Return one of each Door."""
    return (TablesDoor(), TelemetryDoor())
