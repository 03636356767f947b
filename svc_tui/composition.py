"""Composition root: the lanes and Doors of this installation, and the control API over them.

Importing this module registers the lanes with the manifest. Implementations are imported on demand, because
most commands need none of them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from engine.manifest.model import register_lanes
from lanes import go, js, rust, static

if TYPE_CHECKING:
    from quart import Blueprint

    from doors.tables.sqlite.replay_time import ReplayTime
    from engine.door import Door
    from engine.lane import Lane

register_lanes([static.SPEC, go.SPEC, rust.SPEC, js.SPEC])


def lanes() -> "dict[str, Lane]":
    """Return an instance of each lane, by its name in the manifest."""
    from lanes.go.lane import GoLane
    from lanes.js.lane import JsLane
    from lanes.rust.lane import RustLane
    from lanes.static.lane import StaticLane

    return {lane.spec.name: lane for lane in (StaticLane(), GoLane(), RustLane(), JsLane())}


def doors(replay: "ReplayTime | None" = None) -> "tuple[Door, ...]":
    """Return an instance of each Door. `replay` is the time of SQL in the replay of a capsule."""
    from doors.crypto.door import CryptoDoor
    from doors.files.door import FilesDoor
    from doors.files.store import COUNT as FILES_COUNT
    from doors.jobs.door import COUNT as JOBS_COUNT
    from doors.jobs.door import JOBS, JobsDoor
    from doors.tables.door import TablesDoor
    from doors.tables.project_database import ProjectDatabase
    from doors.telemetry.door import TelemetryDoor

    counts = {FilesDoor.name: FILES_COUNT, JobsDoor.name: JOBS_COUNT}
    tables = TablesDoor(replay=replay, tables=(JOBS,), counts=counts)
    return (tables, TelemetryDoor(), CryptoDoor(), FilesDoor(ProjectDatabase), JobsDoor())


def project_api(name: str, folder: Path) -> "tuple[Blueprint, ...]":
    """Return the control API of one project whose data is in `folder`."""
    from doors.files.api import blueprint as files
    from doors.files.store import FileStore
    from doors.tables.api.routes import blueprint as tables
    from doors.tables.project_database import ProjectDatabase
    from engine.bucket.blobs import FolderBlobs
    from engine.control import projects
    from engine.control.projects import SingleProject
    from engine.control.routes import logs, usage

    project = SingleProject(name, folder)
    blobs = FolderBlobs(folder)
    stored = files(lambda asked: FileStore(ProjectDatabase(project.data_dir(asked)), blobs))
    shown = usage.blueprint(project), logs.blueprint(project)
    return projects.blueprint(project), tables(project), stored, *shown
