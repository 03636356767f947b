"""A Project's control API, wherever it is: that of its running `svc dev`, or one in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

from engine.control.local_server import serve_local
from engine.files.data_dir import DATA_DIR
from engine.manifest.model import Project
from svc_tui.background_loop import run_in_background
from svc_tui.client import Client
from svc_tui.client.discovery import find_running
from svc_tui.control import project_api


@contextmanager
def project_client(project: Project) -> Iterator[Client]:
    """Give a client of the Project's control API: of `svc dev` when it runs, else of this process."""
    folder = project.root / DATA_DIR
    if (running := find_running(folder, "/v1/projects")) is not None:
        with running:
            yield running
        return
    with (
        run_in_background(
            lambda _: serve_local(folder, project_api(project.name, folder), announce=False), "control"
        ) as presence,
        Client(presence.url, presence.token) as client,
    ):
        yield client
