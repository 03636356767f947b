"""Choice of the engine: from the current folder and the options of the command line."""

import os
from pathlib import Path

from engine.errors import InvalidUsage, SvcError
from engine.files.data_dir import DATA_DIR
from engine.http.sockets import PortInUse, bind, raise_fd_limit
from engine.manifest.load import load
from svc_tui.client.credentials import Credentials, CredentialStore, current_project, open_client
from svc_tui.client.discovery import find_running
from svc_tui.console.engine import EmbeddedEngine, EngineConnection, RunningDevServer, ServiceProject

DEFAULT_PORT = 3000


def connect_folder(folder: Path, port: int | None) -> EngineConnection:
    """Return a connection to the `svc dev` running in a folder, or else to an embedded engine.

    The embedded engine listens on `port`; None means port 3000 or a free one.
    """
    name = load(folder).name
    if port is None and (running := find_running(folder / DATA_DIR, "/v1/projects")) is not None:
        running.close()
        return RunningDevServer(name, folder)
    raise_fd_limit()
    try:
        sockets = bind("localhost", DEFAULT_PORT if port is None else port)
    except PortInUse:
        if port is not None:
            raise
        sockets = bind("localhost", 0)
    return EmbeddedEngine(folder, name, sockets)


def connect_service(project: str) -> tuple[Credentials, EngineConnection]:
    """Return the login and a connection to a project of its service.

    An empty `project` means the project of this folder, or the only one of the service. Raises `SvcError` if
    neither decides.
    """
    here = current_project()
    login = CredentialStore.from_environment(os.environ).get(here)
    return login, ServiceProject(login, project or _project_of(login, here))


def _project_of(login: Credentials, here: Path | None) -> str:
    with open_client(login) as client:
        names = list(client.call("GET", "/v1/projects")["projects"])
    if here is not None and (name := load(here).name) in names:
        return name
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise SvcError(f"nothing is deployed at {login.key}", "Run `svc deploy` in the folder of a project.")
    raise InvalidUsage(
        f"{login.key} has several projects",
        f"Run `svc console --project NAME`. Available: {', '.join(names)}.",
    )
