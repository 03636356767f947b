"""The control API of a Project that runs for its developer: its subjects, put together, and served.

Apart from `development.py` because the framework under it takes half a second to load, which is done while
the Project is served already; and from `control.py`, which needs no engine that runs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from quart import Blueprint

from engine.control import manifest, state
from engine.control.listener import listening
from engine.control.manifest import InDevelopment
from engine.control.presence import Presence
from engine.control.projects import OneProject
from engine.control.state import Developing
from engine.deploy.live import LiveProject
from engine.timeline.rates import Rates
from svc_tui.control import DOORS, of_project


def subjects(live: LiveProject, folder: Path, rates: Rates, port: int) -> tuple[Blueprint, ...]:
    """Return the subjects of a Project whose data is in a folder, and which is served on a port."""
    project = live.project
    return (
        *of_project(project.name, folder),
        manifest.blueprint(InDevelopment(project)),
        state.blueprint(Developing(live, rates, port), OneProject(project.name, folder), DOORS),
    )


@asynccontextmanager
async def serving(live: LiveProject, folder: Path, rates: Rates, port: int) -> AsyncIterator[Presence]:
    """Serve the control API of a Project, and announce it in the folder. Raises `SvcError`."""
    async with listening(folder, subjects(live, folder, rates, port), told=True) as presence:
        yield presence
