"""`svc test`."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import InvalidUsage
from engine.http.sockets import bind, raise_fd_limit
from engine.manifest.load import find, load
from svc_tui.user_home import Home


def test(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Command to run, with its arguments.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all requests.")] = False,
) -> None:
    """Serve the project with new data while a command runs. Example: svc test -- npm test"""
    if not command:
        raise InvalidUsage("no command to run was given", "Put it after --, such as `svc test -- npm test`.")
    project = load(find(Path.cwd()))
    # Imported on demand: the engine takes most of a start.
    from svc_tui.dev.server import Settings
    from svc_tui.dev.terminal import run_test

    raise_fd_limit()
    cache = Home.from_environment(os.environ).cache()
    settings = Settings([bind("localhost", 0)], cache, "dev")
    raise typer.Exit(asyncio.run(run_test(project, settings, command, verbose=verbose)))
