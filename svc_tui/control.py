"""What the control API has to say, put together: the subjects of the engine and of each Door.

Apart from `assembly.py` because the framework under it takes half a second to load, which only those pay who
serve the API.
"""

from pathlib import Path

from quart import Blueprint

from doors.tables.api.routes import blueprint as tables
from doors.tables.api.stats import size
from engine.control import projects
from engine.control.projects import SingleProject
from engine.control.routes import logs, timeline

DOOR_STATS = {"tables": size, "telemetry": None}
"""What is told of each Door in a Project's state: the tables that it keeps, or the records that it takes."""


def project_api(name: str, folder: Path) -> tuple[Blueprint, ...]:
    """Return the subjects of the control API of one Project, whose data is in a folder."""
    there = SingleProject(name, folder)
    return (projects.blueprint(there), tables(there), timeline.blueprint(there), logs.blueprint(there))
