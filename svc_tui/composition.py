"""The composition root: the lanes and Doors of this installation. The only file that imports all of them."""

from collections.abc import Callable
from pathlib import Path

from doors.tables.door import TablesDoor
from doors.tables.migrations.migrating import migrate as _migrate
from doors.telemetry.door import TelemetryDoor
from engine.door import Door
from engine.errors import SvcError
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


def migrate(project: Path, data: Path, spare: Callable[[SvcError], None] | None = None) -> tuple[str, ...]:
    """Bring a Project's tables up to its `tables/*.sql`; return what was applied. Raises `SvcError`.

    `spare` hears of files that were edited after they were applied, which are an error without it.
    """
    return _migrate(project, data, spare)
