"""`svc`, `svc console`: the Console, full screen."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import SvcError
from svc_tui.client.credentials import current_project
from svc_tui.console import connect
from svc_tui.console.deployer import ConsoleDeployer, deployer_for_folder
from svc_tui.console.preferences import read_keymap
from svc_tui.console.start import LoginActions, StartActions
from svc_tui.user_home import Home

if TYPE_CHECKING:
    from svc_tui.console.web.run import WebOptions


def console(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            min=0,
            max=65535,
            help=f"Port to serve on; {connect.DEFAULT_PORT}, or a free one when it is taken.",
        ),
    ] = None,
    service: Annotated[
        bool,
        typer.Option("--service", help="Show what the service runs, not the Project in this folder."),
    ] = False,
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Which Project of the service.")
    ] = "",
    web: Annotated[bool, typer.Option("--web", help="Show it in a browser, to who has the key.")] = False,
    web_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the page; 8000, or a free one when it is taken."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Serve the page here.")] = "127.0.0.1",
    web_url: Annotated[str, typer.Option(metavar="URL", help="The page's address at a proxy with TLS.")] = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve the page where others can read what is typed.")
    ] = False,
) -> None:
    """Open the Console: Board, Tables and Logs of the Project in this folder, or of a service."""
    if web:
        # The page's server is loaded for those who want it.
        from svc_tui.console.web.run import WebOptions, public_url

        public = public_url(web_url, insecure=insecure)
        _web(port, project, WebOptions(host, web_port, public, insecure), service=service)
        return
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if os.environ.get("TERM") == "dumb" or not all(stream.isatty() for stream in streams):
        raise SvcError(
            "the Console needs a terminal whose cursor can be moved",
            "Without one, use `svc dev`, `svc logs` and `svc tables`, or `svc console --web`.",
            code="usage",
        )
    # The toolkit takes a moment to load, and only those who see it need it.
    from screens.start.screen import Made
    from svc_tui.console import app

    home = Home.from_environment(os.environ).root
    keys = read_keymap(home, app.binding_ids())
    entrance = LoginActions()
    folder = None if service or project else current_project()
    if folder is None and not service and not project:
        here = Path.cwd()
        chosen = app.choose_project(_short(here), StartActions(here), entrance, keys)
        if chosen is None:
            return
        if isinstance(chosen, Made):
            folder = here / chosen.name
            os.chdir(folder)
        else:
            project = chosen.project
    if folder is None:
        try:
            login, attachment = connect.connect_service(project)
        except SvcError as error:
            if error.code != "unauthenticated" or os.environ.get("SVC_TOKEN"):
                raise
            if app.log_in(entrance, keys) is None:
                raise
            login, attachment = connect.connect_service(project)
        desk = ConsoleDeployer(attachment.info.project, lambda: login, None)
    else:
        attachment = connect.connect_folder(folder, port)
        desk = deployer_for_folder(folder, attachment.info.project, os.environ)
    app.run(attachment, entrance, keys, desk, home)


def _web(port: int | None, project: str, where: "WebOptions", *, service: bool) -> None:
    from svc_tui.console.web import run

    folder = None if service or project else current_project()
    if folder is None and not service and not project:
        raise SvcError(
            "there is no Project here to show in a browser",
            "Go to a Project's folder, or name what to show: `svc console --web --service`.",
            code="no-project",
        )
    sockets = run.bind_page(where)
    attachment = (
        connect.connect_service(project)[1] if folder is None else connect.connect_folder(folder, port)
    )
    run.serve_page(attachment, folder, where, sockets)


def _short(path: Path) -> str:
    """Return a path as people write it who are at home there."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path)
