"""`svc`, `svc console`: the Console, full screen."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SvcError
from engine.listen import PortInUse, allow_connections, bind
from engine.manifest.load import load
from engine.own_folder import FOLDER
from svc_tui import keymap
from svc_tui.attachment import Attachment, Beside, Embedded, OfService
from svc_tui.deploy_desk import DeployDesk, of_folder
from svc_tui.entrance import Entrance, Outside
from svc_tui.home import Home
from svc_tui.nearby import announced
from svc_tui.session import Login, Logins, connected, project_here

PORT = 3000


def console(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            min=0,
            max=65535,
            help=f"Port to serve on; {PORT}, or a free one when it is taken.",
        ),
    ] = None,
    service: Annotated[
        bool,
        typer.Option("--service", help="Show what the service runs, not the Project in this folder."),
    ] = False,
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Which Project of the service.")
    ] = "",
) -> None:
    """Open the Console: Board, Tables and Logs of the Project in this folder, or of a service."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise SvcError(
            "the Console needs a terminal",
            "Without one, use `svc dev`, `svc logs` and `svc tables`.",
            code="usage",
        )
    # The toolkit takes a moment to load, and only those who see it need it.
    from screens.start.screen import Made
    from svc_tui import app

    keys = keymap.read(Home.from_environment(os.environ).root, app.binding_ids())
    entrance = Entrance()
    folder = None if service or project else project_here()
    if folder is None and not service and not project:
        here = Path.cwd()
        chosen = app.start(_short(here), Outside(here), entrance, keys)
        if chosen is None:
            return
        if isinstance(chosen, Made):
            folder = here / chosen.name
            os.chdir(folder)
        else:
            project = chosen.project
    if folder is None:
        login, attachment = _of_service(project)
        desk = DeployDesk(attachment.place.project, lambda: login, None)
    else:
        attachment = _of_folder(folder, port)
        desk = of_folder(folder, attachment.place.project, os.environ)
    app.run(attachment, entrance, keys, desk)


def _short(path: Path) -> str:
    """Return a path as people write it who are at home there."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)


def _of_folder(folder: Path, port: int | None) -> Attachment:
    """Return the `svc dev` that runs in a folder, else an engine of our own."""
    name = load(folder).name
    if port is None and (running := announced(folder / FOLDER, "/v1/projects")) is not None:
        running.__exit__(None, None, None)
        return Beside(name, folder)
    allow_connections()
    try:
        sockets = bind("localhost", PORT if port is None else port)
    except PortInUse:
        if port is not None:
            raise
        sockets = bind("localhost", 0)
    return Embedded(folder, name, sockets)


def _of_service(project: str) -> tuple[Login, Attachment]:
    here = project_here()
    login = Logins.from_environment(os.environ).get(here)
    return login, OfService(login, project or _project_of(login, here))


def _project_of(login: Login, here: Path | None) -> str:
    """Return the Project that is meant: of this folder, or the only one there is."""
    with connected(login) as client:
        names = list(client.call("GET", "/v1/projects")["projects"])
    if here is not None and (name := load(here).name) in names:
        return name
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise SvcError(f"nothing is deployed at {login.key}", "`svc deploy` in a Project's folder does it.")
    raise SvcError(
        f"there are several Projects at {login.key}",
        f"Name one: `svc console --project NAME`. There are {', '.join(names)}.",
        code="usage",
    )
