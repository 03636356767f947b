"""Control API of a project in development.

The web framework takes half a second to load, so `svc dev` imports this module while it serves already.
"""

from contextlib import AbstractAsyncContextManager

from quart import Blueprint

from engine.control.discovery import ControlEndpoint
from engine.control.local_server import serve_local
from engine.control.projects import SingleProject
from engine.control.routes import manifest, requests, state
from engine.control.routes.manifest import EditableManifest
from engine.control.routes.state import dev_status
from svc_tui.composition import door_stats, project_api
from svc_tui.dev.server import DevContext


def blueprints(context: DevContext) -> tuple[Blueprint, ...]:
    """Return the routes for a project in development."""
    project, dev = context.dev.project, context.dev
    projects = SingleProject(project.name, context.folder)
    return (
        *project_api(project.name, context.folder),
        manifest.blueprint(EditableManifest(project)),
        state.blueprint(dev_status(dev, context.rates, context.uses, context.port), projects, door_stats()),
        requests.blueprint(projects, dev, context.replayer),
    )


def serving(context: DevContext) -> AbstractAsyncContextManager[ControlEndpoint]:
    """Serve the control API and publish its endpoint in the data folder. Raises `SvcError`."""
    return serve_local(context.folder, blueprints(context), announce=True)
