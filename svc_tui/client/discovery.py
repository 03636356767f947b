"""Control APIs of running processes on this machine, found through their discovery files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.control.discovery import find_endpoint
from engine.errors import SvcError
from engine.files.data_dir import DATA_DIR
from engine.manifest.model import Project
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client


def find_running(folder: Path, path: str) -> Client | None:
    """Return a client of the control API published in `folder`, or None if GET `path` fails there."""
    presence = find_endpoint(folder)
    if presence is None:
        return None
    client = Client(presence.url, presence.token)
    try:
        client.call("GET", path)
    except SvcError:
        client.close()
        return None
    return client


@contextmanager
def project_client(project: Project) -> Iterator[tuple[Client, Project]]:
    """Yield a client of the project's control API, served by its `svc dev` or else here, and the project."""
    folder = project.root / DATA_DIR
    if (running := find_running(folder, "/v1/projects")) is not None:
        with running:
            yield running, project
        return
    # The API server takes half a second to load.
    from engine.control.local_server import serve_local
    from svc_tui.composition import project_api

    with (
        run_in_background(
            lambda _: serve_local(folder, project_api(project.name, folder), announce=False), "control"
        ) as presence,
        Client(presence.url, presence.token) as client,
    ):
        yield client, project
