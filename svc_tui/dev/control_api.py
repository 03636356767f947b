"""The control API of a Project that runs for its developer: its subjects, put together, and served.

Apart from `development.py` because the framework under it takes half a second to load, which is done while
the Project is served already; and from `control.py`, which needs no engine that runs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quart import Blueprint

from engine.control.discovery import Endpoint
from engine.control.local_server import serve_local
from engine.control.projects import SingleProject
from engine.control.routes import manifest, requests, state
from engine.control.routes.manifest import EditableManifest
from engine.control.routes.state import DevStatus
from svc_tui.composition import door_stats, project_api
from svc_tui.dev.server import DevContext


def subjects(context: DevContext) -> tuple[Blueprint, ...]:
    """Return the subjects of a Project in development."""
    project, dev = context.dev.project, context.dev
    there = SingleProject(project.name, context.folder)
    return (
        *project_api(project.name, context.folder),
        manifest.blueprint(EditableManifest(project)),
        state.blueprint(DevStatus(dev, context.rates, context.uses, context.port), there, door_stats()),
        requests.blueprint(there, dev, context.replayer),
    )


@asynccontextmanager
async def serving(context: DevContext) -> AsyncIterator[Endpoint]:
    """Serve the control API of a Project, and announce it in the folder. Raises `SvcError`."""
    async with serve_local(context.folder, subjects(context), announce=True) as presence:
        yield presence
