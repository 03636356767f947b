"""What the control API has to say, put together: the subjects of the engine and of each Door.

Apart from `assembly.py` because the framework under it takes half a second to load, which only those pay who
serve the API.
"""

import asyncio
from pathlib import Path

from quart import Blueprint

from doors.tables.console.blueprint import blueprint as tables
from engine.control import projects, timeline
from engine.control.listener import listening
from engine.control.projects import OneProject


def of_project(name: str, folder: Path) -> tuple[Blueprint, ...]:
    """Return the subjects of the control API of one Project, whose data is in a folder."""
    there = OneProject(name, folder)
    return (projects.blueprint(there), tables(there), timeline.blueprint(there))


async def serve_project(name: str, folder: Path, stop: asyncio.Event) -> None:
    """Serve the control API of a Project in development until `stop` is set. Raises `SvcError`."""
    async with listening(folder, of_project(name, folder), told=True):
        await stop.wait()
