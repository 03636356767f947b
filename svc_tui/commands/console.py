"""`svc` and `svc console`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from engine.errors import InvalidUsage, SvcError
from svc_tui.client.credentials import current_project
from svc_tui.commands.options import flag, option, port_option
from svc_tui.console.deployer import ConsoleDeployer, deployer_for_folder
from svc_tui.console.engine import DEFAULT_PORT, connect_folder, connect_service
from svc_tui.console.start import LoginActions, StartActions, read_keymap
from svc_tui.project.scaffold import write_schema
from svc_tui.user_home import Home


def console(
    port: Annotated[
        int | None,
        port_option(f"Port of the applications (default: {DEFAULT_PORT}, or a free one).", "--port", "-p"),
    ] = None,
    service: Annotated[bool, flag("Open a deployed project instead of this folder.", "--service")] = False,
    project: Annotated[str, option("NAME", "Deployed project to open.")] = "",
    web: Annotated[bool, flag("Serve the Console in a browser (one-time key).", "--web")] = False,
    web_port: Annotated[int | None, port_option("Port of the page (default: 8000, or a free one).")] = None,
    host: Annotated[str, option("ADDRESS", "Address to serve the page on.")] = "127.0.0.1",
    web_url: Annotated[str, option("URL", "Public URL of the page behind a TLS proxy.")] = "",
    insecure: Annotated[bool, flag("Allow serving the page without encryption.", "--insecure")] = False,
) -> None:
    """Open the Console of the project in this folder or of a deployed one.

    It has Board, Tables, Logs, Jobs and Files.
    """
    folder = None if service or project else current_project()
    needs_project = folder is None and not service and not project
    if web:
        # Loaded on demand: the page server takes a moment to import.
        from svc_tui.console.web import run

        options = run.WebOptions(host, web_port, run.public_url(web_url, insecure=insecure), insecure)
        if needs_project:
            hint = "Run it in a project's folder, or open a deployed project: `svc console --web --service`."
            raise SvcError("no project in this folder", hint, code="no-project")
        sockets = run.bind_page(options)
        engine = connect_folder(folder, port) if folder else connect_service(project)[1]
        asyncio.run(run.serve_page(engine, folder, options, sockets))
        return
    streams = (sys.stdin, sys.stdout, sys.stderr)
    others = "`svc console --web`, or the commands `svc dev`, `svc logs` and `svc tables`."
    if not all(stream.isatty() for stream in streams):
        raise InvalidUsage("the Console needs an interactive terminal", f"Use {others}")
    if os.environ.get("TERM") == "dumb":
        hint = f"Set TERM, as in `TERM=xterm-256color svc`. Otherwise use {others}"
        raise InvalidUsage("the Console cannot draw on this terminal: TERM is dumb", hint)
    # Loaded on demand: Textual takes a moment to import.
    from svc_tui.console import app

    home = Home.from_environment(os.environ).root
    keys = read_keymap(home, app.binding_ids())
    login_actions = LoginActions()
    if needs_project:
        current_folder = Path.cwd()
        user, shown = Path.home(), str(current_folder)
        if user in current_folder.parents:
            shown = f"~/{current_folder.relative_to(user)}"
        choice = app.StartApp(shown, StartActions(current_folder), login_actions, keys).run()
        if choice is None:
            return
        if choice.created:
            folder = current_folder / choice.project
            os.chdir(folder)
        else:
            project = choice.project
    if folder is None:
        try:
            credentials, engine = connect_service(project)
        except SvcError as error:
            if error.code != "unauthenticated" or os.environ.get("SVC_TOKEN"):
                raise
            if app.LoginApp(login_actions, keys).run() is None:
                raise
            credentials, engine = connect_service(project)
        deployer = ConsoleDeployer(engine.info.project, lambda: credentials, None)
    else:
        write_schema(folder)
        engine = connect_folder(folder, port)
        deployer = deployer_for_folder(folder, engine.info.project, os.environ)
    app.run(engine, login_actions, keys, deployer, home)
