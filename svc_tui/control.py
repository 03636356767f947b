"""What the control API has to say, put together: the subjects of the engine and of each Door.

Apart from `assembly.py` because the framework under it takes half a second to load, which only those pay who
serve the API.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quart import Blueprint

from doors.tables.console.blueprint import blueprint as tables
from engine.control import manifest, projects, timeline
from engine.control.listener import listening
from engine.control.manifest import InDevelopment
from engine.control.presence import Presence
from engine.control.projects import OneProject
from engine.deploy.live import LiveProject


def of_project(name: str, folder: Path) -> tuple[Blueprint, ...]:
    """Return the subjects of the control API of one Project, whose data is in a folder."""
    there = OneProject(name, folder)
    return (projects.blueprint(there), tables(there), timeline.blueprint(there))


def of_development(live: LiveProject, folder: Path) -> tuple[Blueprint, ...]:
    """Return the subjects of the control API of a Project that runs for its developer."""
    project = live.project
    return (*of_project(project.name, folder), manifest.blueprint(InDevelopment(project)))


@asynccontextmanager
async def serving_project(live: LiveProject, folder: Path) -> AsyncIterator[Presence]:
    """Serve the control API of a Project in development, and announce it. Raises `SvcError`."""
    async with listening(folder, of_development(live, folder), told=True) as presence:
        yield presence
